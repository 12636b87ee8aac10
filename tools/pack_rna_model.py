"""Make the RNA model of the package from a run of ``tikhon reproduce rna-generalise``.

python tools/pack_rna_model.py OUT/rna-generalise.json
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from tikhon import RNAFolder
from tikhon.data.rna import PRETRAINED
from tikhon.data.rna_parameters import write_parameters
from tikhon.groups import Groups

ROW = "tornado-train-a/grouped"


def main() -> None:
    report = json.loads(Path(sys.argv[1]).read_text())
    (row,) = (row for row in report["rows"] if row["key"] == ROW)
    with tempfile.TemporaryDirectory() as place:
        weights = Path(place) / "weights"
        write_parameters(weights, row["weights"])
        model = RNAFolder.from_parameters(weights, least_hairpin=row["least_hairpin"])
    model.groups_ = Groups(
        model.groups_.index, model.groups_.names, np.full(model.groups_.count, np.nan)
    )  # all learned
    model.strengths_ = row["strengths"]
    model.tuning_ = replace(
        model.tuning_, tuner="mm", strengths=row["strengths"], seconds=row["seconds"],
        reason=f"{row['n_train']} molecules of TORNADO TrainA, {report['date']}: see docs/results/rna-generalise.md",
    )  # fmt: skip
    model.save(PRETRAINED)


main()
