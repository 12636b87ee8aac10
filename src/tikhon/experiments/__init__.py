"""The tables and figures of the papers, run by ``tikhon reproduce``: one file each, listed here by name."""

from tikhon.experiments import (
    chunking_strengths,
    hmm_simulation,
    hucrf,
    mm_sensitivity,
    mm_table1,
    mm_table2,
    mm_table3a,
    multistage,
    rna_generalise,
    rna_strengths,
)
from tikhon.harness.runner import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    made.name: made
    for made in (
        mm_table1.EXPERIMENT,
        mm_table2.EXPERIMENT,
        mm_table3a.EXPERIMENT,
        mm_sensitivity.EXPERIMENT,
        hmm_simulation.EXPERIMENT,
        chunking_strengths.EXPERIMENT,
        rna_strengths.EXPERIMENT,
        rna_generalise.EXPERIMENT,
        hucrf.OCR,
        hucrf.FAQ,
        hucrf.PROTEINS,
        hucrf.POS,
        multistage.TEXT,
        multistage.RANKING,
    )
}

__all__ = ["EXPERIMENTS", "Experiment"]
