"""Table 3(a) of Foo, Do, Ng 2009: multinomial logistic regression on thirteen data sets."""

from tikhon.experiments.classification_report import table_experiment
from tikhon.experiments.paper import TABLE3A
from tikhon.harness.libsvm_sets import VARIANTS

EXPERIMENT = table_experiment(
    "mm-table3a",
    "Foo, Do, Ng 2009, Table 3(a): grid, gradient, direct and MM for multinomial logistic regression",
    TABLE3A | {variant: TABLE3A[name] for variant, name in VARIANTS.items()},
    quick_names=("glass", "iris", "wine"),
)
