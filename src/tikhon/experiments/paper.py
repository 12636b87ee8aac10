"""The figures printed in Foo, Do, Ng 2009, *A majorization-minimization algorithm for (multiple) hyperparameter
learning*.

Accuracies are percentages. Grid and Direct of Tables 2 and 3(a) were run without an intercept, Grad and MM with an
unpenalised one: the paper does not say so, but its figures can only be reproduced that way (see ``INTERCEPT``).
"""

METHODS = ("grid", "gradient", "direct", "mm")
INTERCEPT = {"grid": False, "gradient": True, "direct": False, "mm": True}

TABLE1_COLUMNS = ("lr", "grid", "mm")
TABLE1: dict[str, dict[str, float | None]] = {  # test MSE, and the best C as printed; None: "n/a", ill-conditioned
    "abalone": {"lr": 4.815, "grid": 4.970, "mm": 4.821, "grid_C": 1.0, "mm_C": 0.109},
    "bodyfat": {"lr": 0.000, "grid": 0.000, "mm": 0.000, "grid_C": 0.0625, "mm_C": 0.0600},
    "cpusmall": {"lr": 93.325, "grid": 93.506, "mm": 93.381, "grid_C": 0.5, "mm_C": 0.160},
    "housing": {"lr": 24.111, "grid": 24.833, "mm": 24.491, "grid_C": 2.0, "mm_C": 1.04},
    "mg": {"lr": 0.0213, "grid": 0.0213, "mm": 0.0213, "grid_C": 2.0, "mm_C": 1.630},
    "mpg": {"lr": 10.759, "grid": 11.223, "mm": 11.204, "grid_C": 1.0, "mm_C": 0.951},
    "pyrim": {"lr": None, "grid": 0.00355, "mm": 0.00367, "grid_C": 8.0, "mm_C": 1.137},
    "space": {"lr": 0.0190, "grid": 0.0190, "mm": 0.0190, "grid_C": 0.00391, "mm_C": 0.00503},
    "triazines": {"lr": None, "grid": 0.0272, "mm": 0.0247, "grid_C": 2.0, "mm_C": 26.579},
}


def _accuracies(**rows: tuple[float, float, float, float]) -> dict[str, dict[str, float]]:
    return {name.replace("_", "-"): dict(zip(METHODS, figures, strict=True)) for name, figures in rows.items()}


TABLE2 = _accuracies(
    australian=(86.96, 86.47, 85.51, 85.51),
    breast_cancer=(96.08, 96.08, 96.57, 96.57),
    diabetes=(76.52, 76.96, 76.52, 76.09),
    german_numer=(75.33, 75.33, 75.00, 75.00),
    heart=(83.95, 87.65, 83.95, 86.42),
    ionosphere=(83.81, 82.86, 80.00, 82.86),
    liver_disorders=(68.93, 67.96, 67.96, 65.05),
    mushrooms=(100.00, 100.00, 100.00, 100.00),
    sonar=(70.97, 75.81, 66.13, 70.97),
    splice=(73.24, 85.47, 73.29, 85.33),
    w1a=(97.32, 97.83, 97.20, 97.03),
)

TABLE3A = _accuracies(
    connect_4=(75.62, 75.62, 75.59, 75.60),
    dna=(94.94, 95.03, 95.11, 95.11),
    glass=(64.06, 65.62, 67.19, 67.19),
    iris=(84.44, 88.89, 82.22, 93.33),
    letter=(75.62, 77.34, 75.60, 77.30),
    mnist1=(91.44, 91.64, 89.68, 89.86),
    satimage=(83.25, 83.65, 83.80, 83.50),
    segment=(95.24, 95.09, 93.51, 93.51),
    svmguide2=(84.62, 84.62, 60.68, 60.68),
    usps=(92.08, 91.98, 90.33, 90.33),
    vehicle=(82.21, 83.00, 82.21, 83.00),
    vowel=(40.48, 48.70, 40.91, 48.27),
    wine=(98.11, 98.11, 98.11, 98.11),
)

# Strengths of the kinds of RNA features learned by MM, after one iteration and at convergence, on folds A and B.
TABLE3B: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "base_pair": ((1.647, 1.884), (1.047, 1.129)),
    "terminal_mismatch": ((13.473, 10.442), (126.280, 124.953)),
    "hairpin_length": ((0.771, 0.875), (0.886, 0.953)),
    "internal_explicit": ((4.436, 3.505), (3.891, 3.478)),
    "bulge_length": ((2.961, 3.310), (5.903, 6.200)),
    "internal_length": ((4.663, 3.072), (9.626, 8.792)),
    "internal_symmetric_length": ((5.528, 5.469), (6.617, 6.511)),
    "internal_asymmetry": ((5.710, 6.869), (9.798, 10.967)),
    "bulge_0x1_nucleotides": ((1.882, 1.943), (1.261, 1.241)),
    "internal_1x1_nucleotides": ((2.140, 3.209), (6.236, 6.571)),
    "helix_stacking": ((20.738, 21.066), (67.288, 65.758)),
    "helix_closing": ((0.683, 0.788), (0.302, 0.380)),
    "multi_length": ((0.454, 0.443), (0.329, 0.312)),
    "dangle": ((12.377, 13.262), (61.294, 62.128)),
    "external_length": ((0.691, 0.787), (0.833, 0.779)),
}

TABLE4 = {  # areas of RNA folding, by tuner and tying
    ("gradient", "single"): 0.619, ("gradient", "grouped"): 0.638, ("direct", "single"): 0.603,
    ("direct", "grouped"): 0.612, ("mm", "single"): 0.603, ("mm", "grouped"): 0.633,
}  # fmt: skip
