"""A tuning of RNAFolder that is killed goes on from its last outer step and ends with the same bits."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

TUNING = textwrap.dedent(
    """
    import sys, time
    import numpy as np
    from tikhon import Gradient, RNAFolder
    rng = np.random.default_rng(3)
    sequences, structures = [], []
    for _ in range(12):
        stem, loop = rng.integers(3, 7), rng.integers(3, 8)
        left = rng.choice(list("ACGU"), stem)
        right = ["UGCA"["ACGU".index(letter)] for letter in left[::-1]]
        tail = rng.choice(list("ACGU"), 6)
        sequences.append("".join([*tail[:3], *left, *rng.choice(list("ACGU"), loop), *right, *tail[3:]]))
        structures.append("..." + "(" * stem + "." * loop + ")" * stem + "...")
    model = RNAFolder(tuner=Gradient(checkpoint=sys.argv[1], max_steps=6, tol=1e-9), cv=2, n_jobs=int(sys.argv[4]))
    model._on_step = lambda step: time.sleep(float(sys.argv[3]))
    model.fit(sequences, structures)
    np.save(sys.argv[2], np.array(list(model.weights_.values())))
    """
)


@pytest.mark.slow
def test_killed_twice_and_resumed_ends_with_the_same_bits(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}

    def start(checkpoint, out, pause, threads):
        arguments = [str(checkpoint), str(out), str(pause), str(threads)]
        return subprocess.Popen([sys.executable, "-c", TUNING, *arguments], env=environment)

    whole = tmp_path / "whole.npy"
    assert start(tmp_path / "whole.checkpoint", whole, 0.0, 1).wait() == 0
    checkpoint, out = tmp_path / "killed.checkpoint", tmp_path / "killed.npy"
    seen = b""
    for _ in range(2):
        process = start(checkpoint, out, 0.5, 2)
        while process.poll() is None and (checkpoint.read_bytes() if checkpoint.exists() else b"") == seen:
            time.sleep(0.01)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        seen = checkpoint.read_bytes()
    assert start(checkpoint, out, 0.0, 2).wait() == 0
    np.testing.assert_array_equal(np.load(out), np.load(whole))
