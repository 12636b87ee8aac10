"""The paper's tables as typed in, checked where a slip would show."""

import pytest

from tikhon.experiments import paper
from tikhon.harness.libsvm_sets import CLASSIFICATION, SETS


def test_sizes_and_known_cells() -> None:
    assert (len(paper.TABLE1), len(paper.TABLE2), len(paper.TABLE3A)) == (9, 11, 13)
    assert (*paper.TABLE2, *paper.TABLE3A) == CLASSIFICATION
    assert paper.TABLE2["splice"] == {"grid": 73.24, "gradient": 85.47, "direct": 73.29, "mm": 85.33}
    assert paper.TABLE2["w1a"]["mm"] == 97.03
    assert paper.TABLE2["german-numer"]["direct"] == 75.00
    assert paper.TABLE3A["svmguide2"] == {"grid": 84.62, "gradient": 84.62, "direct": 60.68, "mm": 60.68}
    assert paper.TABLE3A["mnist1"]["gradient"] == 91.64
    assert paper.TABLE3A["connect-4"]["mm"] == 75.60
    assert paper.TABLE1["triazines"] == {"lr": None, "grid": 0.0272, "mm": 0.0247, "grid_C": 2.0, "mm_C": 26.579}
    assert paper.TABLE1["cpusmall"]["lr"] == 93.325


@pytest.mark.parametrize("name", [name for name in {**paper.TABLE2, **paper.TABLE3A} if not SETS[name].supplied_test])
def test_accuracies_are_whole_numbers_of_test_rows(name: str) -> None:
    """30 % of the rows, rounded down, were tested on: each figure is a fraction of that; a mistyped one hardly is."""
    n_test = int(0.3 * SETS[name].rows)
    for figure in {**paper.TABLE2, **paper.TABLE3A}[name].values():
        correct = round(figure / 100.0 * n_test)
        assert abs(100.0 * correct / n_test - figure) < 0.006
