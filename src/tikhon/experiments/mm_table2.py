"""Table 2 of Foo, Do, Ng 2009: logistic regression on eleven data sets of two classes."""

from tikhon.experiments.classification_report import table_experiment
from tikhon.experiments.paper import TABLE2

EXPERIMENT = table_experiment(
    "mm-table2",
    "Foo, Do, Ng 2009, Table 2: grid, gradient, direct and MM for logistic regression",
    TABLE2,
    quick_names=("australian", "breast-cancer", "heart"),
)
