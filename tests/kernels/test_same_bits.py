"""A process that compiles the kernels and one that finds them in the cache compute the same bits."""

import os
import subprocess
import sys
import textwrap

import pytest

CHAINS = textwrap.dedent(
    """
    import numpy as np
    from tikhon.models.chain.objective import Chain
    from tikhon.models.chain.layout import layout_of
    from tikhon.models.chain.sequences import Sequences
    rng = np.random.default_rng(0)
    n_tokens, n_features, n_labels = 3000, 400, 22
    features = rng.integers(0, n_features, 5 * n_tokens).astype(np.int32)
    starts, pointers = np.arange(0, n_tokens + 1, 20), np.arange(0, 5 * n_tokens + 1, 5)
    labels = rng.integers(0, n_labels, n_tokens).astype(np.int32)
    sequences = Sequences(starts, pointers, features, None, labels, n_features, n_labels)
    objective = Chain(sequences, layout_of(sequences, 1))
    """
)
MOLECULES = textwrap.dedent(
    """
    import numpy as np
    from tikhon.models.folding.objective import Folding, example
    from tikhon.models.folding.structures import ANY, Rules, encoded
    rng = np.random.default_rng(0)
    letters = [encoded("".join(rng.choice(list("ACGU"), 120))) for _ in range(3)]
    partners = [np.full(len(row), ANY) for row in letters]
    for row in partners:
        row[1:60] = 0
    objective = Folding([example(a, b, Rules()) for a, b in zip(letters, partners)], Rules())
    """
)
DERIVATIVES = textwrap.dedent(
    """
    weights = 0.3 * rng.normal(size=objective.n_weights)
    loss, gradient = objective.loss_gradient(weights)
    product = objective.hessian_at(weights)(rng.normal(size=objective.n_weights))
    print(loss.hex(), gradient.tobytes().hex(), product.tobytes().hex())
    """
)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [pytest.param(CHAINS, id="chains"), pytest.param(MOLECULES, id="molecules")])
def test_same_bits_with_an_empty_and_a_full_cache(problem, tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path)}

    def bits():
        code = [sys.executable, "-c", problem + DERIVATIVES]
        return subprocess.run(code, env=environment, check=True, capture_output=True, text=True, timeout=600).stdout

    compiling = bits()
    assert any(tmp_path.rglob("*.nbc"))
    assert bits() == compiling
