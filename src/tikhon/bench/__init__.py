"""Speed compared with other libraries, as ratios measured in one run of ``tikhon bench``: one file each, listed by name."""

from tikhon.bench.crf import BENCH as CRF
from tikhon.bench.glm import BENCH as GLM
from tikhon.bench.grouped_ridge import BENCH as GROUPED_RIDGE
from tikhon.bench.groups import BENCH as GROUPS
from tikhon.bench.hucrf import BENCH as HUCRF
from tikhon.bench.hypergradient import BENCH as HYPERGRADIENT
from tikhon.bench.price import BENCH as PRICE
from tikhon.bench.reading import BENCH as READING
from tikhon.bench.rna import BENCH as RNA
from tikhon.bench.samplers import BENCH as SAMPLERS
from tikhon.bench.scale import BENCH as SCALE
from tikhon.bench.text import BENCH as TEXT
from tikhon.harness.runner import Experiment as Bench

BENCHES: dict[str, Bench] = {
    bench.name: bench
    for bench in (CRF, GLM, GROUPED_RIDGE, GROUPS, HUCRF, HYPERGRADIENT, PRICE, READING, RNA, SAMPLERS, SCALE, TEXT)
}

__all__ = ["BENCHES", "Bench"]
