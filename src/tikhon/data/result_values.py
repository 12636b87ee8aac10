"""Descriptions of tuning steps and results in model files and checkpoints; their arrays are stored separately."""

from tikhon.data.values import ANY_NUMBER, DictOf, ListOf, Record, Text, Whole, optional, record_of
from tikhon.results import Step, TuneResult

COUNT = Whole(at_least=0)
STEP = record_of(Step, without=("strengths",), number=Whole(at_least=1), n_iter=COUNT, n_passes=COUNT, n_products=COUNT)
EXTRAS = Record(
    {},
    optional={
        "n_iter": COUNT,
        "loss_factor": ANY_NUMBER,
        "precisions": DictOf(ANY_NUMBER),
        "degrees_of_freedom": DictOf(ANY_NUMBER),
        "grid": Record(
            {
                "strengths": ListOf(ANY_NUMBER, names="n_tried"),
                "losses": ListOf(ANY_NUMBER, names="n_tried"),
                "standard_errors": ListOf(optional(ANY_NUMBER), names="n_tried"),
                "chosen": ANY_NUMBER,
            }
        ),
        "pooling": Record(
            {"common_strength": ANY_NUMBER, "common_criterion": ANY_NUMBER, "ratios": DictOf(ANY_NUMBER)},
            optional={
                "deviation": ANY_NUMBER,
                "dispersion": ANY_NUMBER,
                "centres": DictOf(ANY_NUMBER),
                "slopes": DictOf(ANY_NUMBER),
                "reasons": DictOf(Text()),
            },
        ),
    },
    open=True,  # users' tuners may add any entries
)
_TUNING = record_of(
    TuneResult,
    without=("strengths", "weights", "trace"),
    optional=("relative_gap", "gap_is_bound"),  # missing in files of version 0.1
    n_fits=COUNT,
    extras=EXTRAS,
)
TUNING = Record({**_TUNING.entries, "trace": ListOf(STEP, names="n_steps")}, _TUNING.optional)
