"""Description of an RNAFolder's model file: its weights and rules. ``tikhon fold predict`` reads only these."""

from tikhon.data.values import Flag, ListOf, Text, Whole
from tikhon.estimators.description import TRUTH, model_description
from tikhon.kernels.folding.inside import LONGEST
from tikhon.models.folding.weights import GROUPS, folding_weights

MOST_LETTERS = 2**31 - 1

FOLDER_FILE = model_description(
    parameters={
        "without": ListOf(Text(GROUPS)),
        "least_hairpin": Whole(0, MOST_LETTERS),
        "longest_loop": Whole(0, LONGEST),
        "longest_sequence": Whole(0, MOST_LETTERS),
        "all_pairs": TRUTH,
        "counts_parses": TRUTH,
        "warm_start": Flag(),
    },
    header={},
    arrays=lambda header, arrays: {},
    n_weights=lambda _: len(folding_weights().names),
)
