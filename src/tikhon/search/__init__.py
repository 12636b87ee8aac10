"""Multi-stage Bayesian search over any estimator, on Optuna: Wang et al. 2015, and beyond it.

- ``multistage``: the estimator; ``given``, ``budget`` and ``outcome`` are its first and last steps,
  ``callbacks`` those of scikit-learn.
- ``coordinator``: the algorithm, one study for each stage; ``trials`` are their records.
- ``space``: what users write, as distributions of Optuna; ``encoding``: these as points of the unit cube.
- ``sampler``: the Gaussian process; ``samplers``: samplers by name.
- ``stages``: nested subsets of rows; ``evaluation``: one trial; ``workers``, ``cluster``: who evaluates trials.
- ``storage``: files and addresses; ``journals``: files that survive a kill; ``claims``: one search at a time for each file.
- ``identity``: whether a study is that of this search.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tikhon.errors import MissingExtra
from tikhon.lazy import imported_when_used

if TYPE_CHECKING:
    from tikhon.search.multistage import MultiStageSearchCV
    from tikhon.search.sampler import GaussianProcessSampler

_missing = [name for name in ("optuna", "pebble", "cloudpickle") if find_spec(name) is None]
if _missing:
    raise MissingExtra(f"tikhon.search needs {', '.join(_missing)}: pip install 'tikhon[search]'")

__all__ = ["GaussianProcessSampler", "MultiStageSearchCV"]
__getattr__ = imported_when_used(
    __name__,
    {
        "GaussianProcessSampler": "tikhon.search.sampler",
        "MultiStageSearchCV": "tikhon.search.multistage",
    },
)
