"""The tables and figures of the papers, run by ``tikhon reproduce``: one file each, listed here by name."""

from tikhon.experiments import (
    chunking_strengths,
    hmm_simulation,
    mm_sensitivity,
    mm_table1,
    mm_table2,
    mm_table3a,
    rna_generalise,
    rna_strengths,
)
from tikhon.harness.runner import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        mm_table1,
        mm_table2,
        mm_table3a,
        mm_sensitivity,
        hmm_simulation,
        chunking_strengths,
        rna_strengths,
        rna_generalise,
    )
}

__all__ = ["EXPERIMENTS", "Experiment"]
