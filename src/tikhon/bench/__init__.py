"""Speed beside other libraries, as ratios from one run by ``tikhon bench``: one file each, listed here by name."""

from tikhon.bench.glm import BENCH as GLM
from tikhon.bench.hypergradient import BENCH as HYPERGRADIENT
from tikhon.experiments.runner import Experiment as Bench

BENCHES: dict[str, Bench] = {bench.name: bench for bench in (GLM, HYPERGRADIENT)}

__all__ = ["BENCHES", "Bench"]
