"""RNA folding against enumeration of all structures, and against figures of the original program."""

import gzip
import math

import numpy as np
import pytest
from tests import naive

from tikhon.data.dot_bracket import SOME_PARTNER
from tikhon.models.folding.objective import Folding, example
from tikhon.models.folding.passes import boltzmann_of, fold_inside
from tikhon.models.folding.structures import Rules, encoded, known_uses, unknown_molecule
from tikhon.models.folding.weights import GROUPS, LETTERS, folding_weights, score_matrix, scores_from, tables_of
from tikhon.solvers import LBFGS, NewtonCG
from tikhon.testing import check_objective

HUNDRED = "CAGAUUUUCAUAUUAUGCAGAAAAUCUACUUCGCCUGAUACGAGUCGGUUAUCUUCGGAUACUGUAUAGUCCCACCUGGUGAUCCUAUGCUUGUGAGUAC"


def a_sequence(rng, length, other=0.0):
    letters = rng.choice(list(LETTERS), length, p=[0.2, 0.3, 0.3, 0.2])
    return "".join(np.where(rng.random(length) < other, "N", letters))


def all_counts(sequence, structures):
    places = {name: n for n, name in enumerate(folding_weights().names)}
    counts = np.zeros((len(structures), len(places)))
    for row, partners in zip(counts, structures, strict=True):
        for name, count in naive.folding_counts(sequence, partners).items():
            row[places[name]] = count
    return counts


def objective_of(sequence, partners, rules, **settings):
    return Folding([example(encoded(sequence), np.asarray(partners), rules)], rules, **settings)


def log_z(sequence, weights, rules):
    scores = tables_of(score_matrix(rules.counts_parses) @ weights)
    free = unknown_molecule(encoded(sequence), rules)
    return fold_inside(free, scores, rules.longest_loop).log_z


def test_groups_have_the_sizes_of_the_default_model():
    sizes = np.bincount(folding_weights().groups).tolist()
    assert dict(zip(GROUPS, sizes, strict=True)) == {
        "base_pair": 10, "terminal_mismatch": 256, "hairpin_length": 31, "internal_explicit": 10, "bulge_length": 30,
        "internal_length": 29, "internal_symmetric_length": 15, "internal_asymmetry": 28, "bulge_0x1_nucleotides": 4,
        "internal_1x1_nucleotides": 10, "helix_stacking": 136, "helix_closing": 16, "multi_length": 3, "dangle": 128,
        "external_length": 2,
    }  # fmt: skip


@pytest.mark.parametrize("length", [9, 12, 14])
@pytest.mark.parametrize("least_hairpin", [0, 3])
@pytest.mark.parametrize("known", ["all", "half", "paired or not", "nothing"])
def test_loss_gradient_and_product_equal_enumeration(length, least_hairpin, known, rng):
    sequence = a_sequence(rng, length, other=0.1)
    rules = Rules(least_hairpin=least_hairpin, longest_loop=30 if length < 14 else 3)
    structures = list(naive.foldings(sequence, least_hairpin, rules.longest_loop))
    counts = all_counts(sequence, structures)
    weights, v = rng.normal(size=counts.shape[1]), rng.normal(size=counts.shape[1])
    partners = np.array(structures[rng.integers(len(structures))]) + 1
    if known == "paired or not":
        partners[partners > 0] = SOME_PARTNER
    else:
        partners[rng.random(length) < {"all": 0.0, "half": 0.5, "nothing": 1.0}[known]] = -1
    every_one = np.array(structures) + 1
    fits = (partners == -1) | (every_one == partners) | ((partners == SOME_PARTNER) & (every_one > 0))
    agrees = fits.all(axis=1)
    every, given = (naive.chain_moments(counts, weights, chosen) for chosen in (np.ones_like(agrees), agrees))
    objective = objective_of(sequence, partners, rules, row_weights=np.array([2.0]))
    loss, gradient = objective.loss_gradient(weights)
    assert loss == pytest.approx(2.0 * (every[0] - given[0]), abs=1e-10)
    np.testing.assert_allclose(gradient, 2.0 * (every[1] - given[1]), atol=1e-10)
    np.testing.assert_allclose(objective.hessian_at(weights)(v), 2.0 * (every[2] - given[2]) @ v, atol=1e-9)
    assert objective.is_convex == (partners >= 0).all()


def test_uses_of_a_structure_are_its_features(rng):
    sequence = a_sequence(rng, 13)
    structures = list(naive.foldings(sequence))
    for one in rng.permutation(len(structures))[:50]:
        uses = known_uses(encoded(sequence), np.array(structures[one]) + 1, Rules())
        np.testing.assert_array_equal(folding_weights().scores.T @ uses, all_counts(sequence, [structures[one]])[0])


@pytest.mark.parametrize(
    ("sequence", "structure", "said"),
    [
        ("GAAAA", "(...)", "letters 1 and 5 cannot pair"),
        ("GC", "()", "letters 1 and 2 are closer than 3"),
        (
            "G" + "A" * 20 + "GAAAC" + "A" * 11 + "C",
            "(" + "." * 20 + "(...)" + "." * 11 + ")",
            "31 unpaired letters, 30 at most",
        ),
    ],
)
def test_structures_that_are_impossible_say_why(sequence, structure, said):
    partners, stack = np.zeros(len(sequence), int), []
    for place, mark in enumerate(structure, 1):
        if mark == "(":
            stack.append(place)
        elif mark == ")":
            partners[place - 1], partners[stack[-1] - 1] = stack[-1], place
            stack.pop()
    with pytest.raises(ValueError, match=said):
        known_uses(encoded(sequence), partners, Rules(least_hairpin=3))


def parses(partners):
    """How often CONTRAfold's grammar has a structure: letters after the last of m >= 3 pairs in a loop may go with any of
    the last m - 1."""
    count = 1
    for (_, j), branches, _ in naive.loops_of(partners):
        if len(branches) > 2:
            after = j - branches[-1][1] - 1
            count *= math.comb(after + len(branches) - 2, len(branches) - 2)
    return count


@pytest.mark.parametrize(("sequence", "most"), [("GGCGCGCAAC", 3), ("GGCGCGCGCAAC", 6), ("GAAGCGCGCC", 1)])
def test_parses_are_counted_as_the_original_does(sequence, most, rng):
    """Letters after the pairs of a loop count, letters before them do not."""
    structures = list(naive.foldings(sequence))
    multiplicity = np.array([parses(one) for one in structures])
    assert multiplicity.max() == most
    counts = all_counts(sequence, structures)
    weights, v = rng.normal(size=708), rng.normal(size=708)
    every = naive.chain_moments(np.repeat(counts, multiplicity, axis=0), weights, np.ones(multiplicity.sum(), bool))
    rules = Rules(counts_parses=True)
    assert log_z(sequence, weights, rules) == pytest.approx(every[0], abs=1e-10)
    place = int(np.argmax(multiplicity))
    objective = objective_of(sequence, np.array(structures[place]) + 1, rules)
    loss, gradient = objective.loss_gradient(weights)
    assert loss == pytest.approx(every[0] - counts[place] @ weights - np.log(most), abs=1e-10)
    np.testing.assert_allclose(gradient, every[1] - counts[place], atol=1e-10)
    np.testing.assert_allclose(objective.hessian_at(weights)(v), every[2] @ v, atol=1e-9)


@pytest.mark.parametrize("length", [40, 80])
def test_it_is_an_objective_like_the_others(length, rng):
    """Long enough for all sizes of loops: derivatives against differences, at random points in random directions."""
    sequences = [a_sequence(rng, length), a_sequence(rng, length // 2)]
    rules = Rules()
    partners = [np.full(length, -1), np.zeros(length // 2, int)]
    partners[0][: length // 3] = 0
    examples = [example(encoded(one), known, rules) for one, known in zip(sequences, partners, strict=True)]
    check_objective(Folding(examples, rules), rng)


def test_threads_give_the_same_bits(rng):
    rules = Rules()
    examples = [example(encoded(a_sequence(rng, n)), np.full(n, 0), rules) for n in (30, 50, 20, 70)]
    weights = 0.3 * rng.normal(size=708)
    one, two = (Folding(examples, rules, n_threads=threads).loss_gradient(weights) for threads in (1, 2))
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


@pytest.mark.parametrize("counts_parses", [False, True])
def test_sums_of_weights_are_the_product_with_their_matrix(counts_parses, rng):
    weights = rng.normal(size=708)
    np.testing.assert_array_equal(scores_from(weights, counts_parses), score_matrix(counts_parses) @ weights)


@pytest.mark.parametrize("size", [-3.0, 0.0, 3.0])
def test_the_scale_follows_the_scores(size):
    """Every unpaired letter outside adds the same, so log Z of a sequence that cannot pair is known."""
    weights = np.zeros(708)
    weights[folding_weights().names.index("external_unpaired")] = size
    assert log_z("A" * 700, weights, Rules()) == pytest.approx(700 * size, rel=1e-12, abs=1e-9)


def test_weights_beyond_floating_point_give_no_nan():
    """A loop that is as good as impossible, and letters in it that make up for that."""
    scores = np.zeros(len(scores_from(np.zeros(708), counts_parses=False)))
    tables_of(scores).loop[:] = -1000.0
    tables_of(scores).bulge[:] = tables_of(scores).internal[:] = 1000.0
    boltzmann = boltzmann_of(tables_of(scores), 10, 0.0)
    for found in (boltzmann.bulge_left, boltzmann.bulge_right, boltzmann.internal):
        np.testing.assert_allclose(found, 1.0)
    assert boltzmann_of(tables_of(scores), 10, 0.0, longest_loop=0).bulge_left.tolist() == [0.0] * 5


@pytest.mark.parametrize("size", [-11.0, -9.2, 9.8, 11.5])
def test_products_do_not_square_a_scaled_sum(size, rng):
    """The scale is guessed for scores of 0, so that Z is near the ends of its range; one structure has no curvature."""
    names = folding_weights().names
    weights = np.zeros(708)
    weights[names.index("external_unpaired")] = size
    objective = objective_of("A" * 40, np.full(40, -1), Rules())
    assert np.abs(objective.hessian_at(weights)(rng.normal(size=708))).max() < 1e-9


def test_long_molecules_stay_finite(rng):
    weights = 0.5 * rng.normal(size=708)
    sequence = a_sequence(rng, 1200)
    whole, double = log_z(sequence, weights, Rules()), log_z(sequence + "A" + sequence, weights, Rules())
    assert np.isfinite([whole, double]).all()
    assert double > 2.0 * whole + weights[folding_weights().names.index("external_unpaired")] - 10.0


@pytest.fixture(scope="module")
def shipped(data_dir):
    """The weights that the original program comes with."""
    with gzip.open(data_dir / "rna" / "contrafold_v2.complementary.params.gz", "rt") as lines:
        read = dict(line.split() for line in lines)
    assert tuple(read) == folding_weights().names
    return np.array(list(read.values()), float)


@pytest.mark.parametrize(
    ("sequence", "least_hairpin", "expected"),
    [(HUNDRED, 0, 7.42875), (HUNDRED, 3, 7.23889), ("GGGGAAAACCCC", 0, 3.05661)],
)
def test_partition_functions_of_the_original_weights(shipped, sequence, least_hairpin, expected):
    assert log_z(sequence, shipped, Rules(least_hairpin=least_hairpin)) == pytest.approx(expected, abs=1e-5)
    assert log_z(sequence.lower().replace("u", "t"), shipped, Rules(least_hairpin=least_hairpin)) == pytest.approx(
        expected, abs=1e-5
    )


def test_the_original_counts_parses(shipped):
    assert log_z(HUNDRED, shipped, Rules(counts_parses=True)) == pytest.approx(7.45161, abs=1e-5)


def test_the_score_of_the_original_weights(shipped):
    partners = np.array([12, 11, 10, 9, 0, 0, 0, 0, 4, 3, 2, 1])
    uses = known_uses(encoded("GGGGAAAACCCC"), partners, Rules())
    assert float(uses @ (folding_weights().scores @ shipped)) == pytest.approx(2.713993, abs=1e-6)


@pytest.mark.slow
def test_structures_that_are_drawn_sketch_the_hessian(rng, monkeypatch):
    sequence, weights = a_sequence(rng, 24), 0.3 * rng.normal(size=folding_weights().count)
    objective = objective_of(sequence, np.zeros(24, np.int64), Rules(), row_weights=np.array([2.5]))
    product = objective.hessian_at(weights)
    for name in ("DRAWN", "ENOUGH_DRAWN"):
        monkeypatch.setattr(f"tikhon.models.folding.objective.{name}", 20_000)
    sketch = objective.hessian_sketch(weights)
    for _ in range(5):
        v = rng.normal(size=len(weights))
        # v'Hv is a variance: its estimate from n draws is off by sqrt(2 / n), about, and here by heavier tails.
        assert v @ sketch @ v == pytest.approx(v @ product(v), rel=0.06)
    assert np.array_equal(objective.hessian_sketch(weights), sketch)


def test_fits_from_sketches_end_where_newton_does(rng):
    sequences = [a_sequence(rng, 20) for _ in range(6)]
    structures = [np.array(list(naive.foldings(s, 3))[-1]) + 1 for s in sequences]
    rules = Rules(least_hairpin=3)
    objective = Folding([example(encoded(s), p, rules) for s, p in zip(sequences, structures, strict=True)], rules)
    strength = np.exp(rng.normal(size=objective.n_weights))
    by_sketch = LBFGS().minimise(objective, strength, tol=1e-18)
    by_newton = NewtonCG().minimise(objective, strength, tol=1e-18)
    np.testing.assert_allclose(by_sketch.weights, by_newton.weights, atol=1e-7)
    assert by_sketch.status == "converged"
