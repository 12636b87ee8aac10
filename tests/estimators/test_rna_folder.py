"""RNAFolder: what it learns, what it predicts, what it refuses."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from tikhon import MM, InputError, RNAFolder, load
from tikhon.data.rna import load_rna
from tikhon.errors import TuningWarning
from tikhon.models.folding.weights import GROUPS

SEQUENCES = ["GGGAAAUCCC", "GCGCAAGCGC", "CCAAAAGG", "GGCUUCGGCC", "GGGGAAAACCCC", "AGCCAAAGGCA"]
STRUCTURES = ["(((....)))", "((((..))))", "((....))", "(((....)))", "((((....))))", ".(((...)))."]


@pytest.fixture(scope="module")
def model():
    return RNAFolder(tuner=None, strengths=0.1).fit(SEQUENCES, STRUCTURES)


def test_it_predicts_what_it_learned(model):
    assert model.predict(SEQUENCES) == STRUCTURES
    assert model.predict(["gggaaaaccc", "GGGTTTTCCC"], method="centroid") == ["(((....)))"] * 2
    assert model.score(SEQUENCES, STRUCTURES) == 1.0
    assert set(model.weights_) >= {"base_pair_CG", "multi_base", "external_unpaired"}


def test_probabilities_sum_up(model):
    (pairs,) = model.predict_pairs(["GGGAAAACCC"])
    assert pairs.shape == (10, 10)
    assert pairs.toarray()[0, 9] > 0.5
    assert np.tril(pairs.toarray()).max() == 0.0
    per_letter = pairs.sum(axis=0) + pairs.sum(axis=1)
    assert per_letter.max() <= 1.0 + 1e-12


def test_likelihoods_are_shares_of_the_partition(model):
    shares = np.exp(model.log_partition(SEQUENCES, constraints=STRUCTURES) - model.log_partition(SEQUENCES))
    assert (shares < 1.0).all()
    assert model.log_likelihood(SEQUENCES, STRUCTURES) == pytest.approx(np.log(shares).sum())
    assert model.log_likelihood(["GGGAAAACCC"], ["??????????"]) == pytest.approx(0.0, abs=1e-12)


def test_constraints_are_kept(model):
    assert model.predict(["GGGAAAACCC"], constraints=["(........)"])[0] == "(........)"
    assert model.predict(["GGGAAAACCC"], constraints=[".????????."])[0][0] == "."
    assert model.predict(["GGGAAAACCC"], constraints=["(????????)"])[0] == "(((....)))"


def test_a_letter_that_pairs_with_any_other(model):
    sequence, known = ["GGGAAAUCCC"], ["???|??????"]
    assert model.predict(sequence, method="viterbi")[0][3] == "."
    drawn = model.sample(sequence, 20, constraints=known)[0]
    for guess in (*drawn, *model.predict(sequence, method="viterbi", constraints=known)):
        assert (guess[3], guess[6]) == ("(", ")")  # the only U
    assert model.log_partition(sequence, constraints=known) < model.log_partition(sequence)


@pytest.mark.parametrize("method", ["mea", "centroid", "viterbi"])
def test_every_method_pairs_letters_that_must(method):
    """With probabilities spread over many pairs, none of them pays."""
    sequence = "CGCAUACGGUAUCGACCUCCGCCUCACGAAUUGGCGUCGA"
    known = "?" * 16 + "|" + "?" * 23
    (found,) = RNAFolder.pretrained().predict([sequence], gamma=1.0, method=method, constraints=[known])
    assert found[16] in "()"


def test_structures_known_in_part_get_a_note():
    notes = [
        RNAFolder(tuner=None, strengths=0.1).fit(SEQUENCES[:1] * 2, [STRUCTURES[0], last]).tuning_.notes
        for last in (STRUCTURES[0], STRUCTURES[0].replace("(", "|").replace(")", "|"))
    ]
    assert [any("not convex" in note for note in one) for one in notes] == [False, True]


def test_weights_that_are_not_penalised_stay_so_without_other_kinds(tmp_path):
    def group(name):
        return None if name.startswith("base_pair") else "others"

    model = RNAFolder(group, tuner=None, strengths=1.0, without=["dangle"]).fit(SEQUENCES, STRUCTURES)
    free = [name for name, number in zip(model.weights_, model.groups_.index, strict=True) if number < 0]
    assert free == [name for name in model.weights_ if name.startswith("base_pair")]
    assert set(model.strengths_) == {"others", "left out"}
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert [name for name, one in zip(model.weights_, again.groups, strict=True) if one is None] == free
    assert again.predict(SEQUENCES) == model.predict(SEQUENCES)


def test_the_packaged_model_takes_parameters():
    assert RNAFolder.pretrained(n_jobs=1, least_hairpin=5).get_params()["least_hairpin"] == 5
    with pytest.raises(ValueError, match="hairpins"):
        RNAFolder.pretrained(hairpins=3)


@pytest.mark.parametrize("groups", ["kind", None, "separate"])
def test_strengths_are_learned_for_groups(groups):
    model = RNAFolder(groups=groups, tuner=MM(max_steps=3)).fit
    with pytest.warns(match=r"did not converge|strengths"):
        found = model(SEQUENCES, STRUCTURES)
    assert len(found.strengths_) == {"kind": 15, None: 1, "separate": 708}[groups]


@pytest.mark.slow
def test_hypergradients_agree_with_refits():
    """On ten short RNAs; the issue asks for 1e-4."""
    sequences, structures = SEQUENCES + SEQUENCES[:4], STRUCTURES + STRUCTURES[:4]
    report = RNAFolder(cv=2, solver="newton-cg").check_hypergradient(sequences, structures, tol=1e-4)
    assert report.error <= 1e-4


def test_files_keep_the_model(model, tmp_path):
    model.save(tmp_path / "rna.safetensors")
    again = load(tmp_path / "rna.safetensors")
    assert again.weights_ == model.weights_
    assert again.predict(SEQUENCES) == STRUCTURES


@pytest.mark.slow
def test_columns_of_data_frames_are_lists():
    frame = pd.DataFrame({"x": SEQUENCES, "y": STRUCTURES}, index=range(10, 10 + len(SEQUENCES)))
    model = RNAFolder(tuner="grid", cv=2).fit(frame["x"], frame["y"])
    assert model.predict(frame["x"]) == RNAFolder(tuner="grid", cv=2).fit(SEQUENCES, STRUCTURES).predict(SEQUENCES)


def test_it_works_with_scikit_learn():
    model = RNAFolder(tuner=None, strengths=0.1)
    assert clone(model).get_params() == model.get_params()
    assert cross_val_score(model, SEQUENCES, STRUCTURES, cv=3).shape == (3,)
    search = GridSearchCV(model, {"strengths": [0.1, 10.0]}, cv=3).fit(SEQUENCES, STRUCTURES)
    assert search.best_params_["strengths"] in (0.1, 10.0)


def test_the_best_structure_and_samples(model):
    assert model.predict(SEQUENCES[:1], method="viterbi") == STRUCTURES[:1]
    drawn = model.sample(SEQUENCES[:2], 50)
    assert [len(one) for one in drawn] == [50, 50]
    assert STRUCTURES[0] in drawn[0]
    assert drawn == RNAFolder.set_params(model, n_jobs=2).sample(SEQUENCES[:2], 50)
    assert drawn != model.sample(SEQUENCES[:2], 50, random_state=1)
    assert set(model.sample(["GGGAAAACCC"], 20, constraints=["(????????)"])[0]) <= {
        one for one in model.sample(["GGGAAAACCC"], 5000)[0] if one[0] == "("
    } | {"(((....)))", "((......))", "(........)"}


def test_parameter_files_keep_every_bit(model, tmp_path):
    model.save_parameters(tmp_path / "weights.params.gz")
    again = RNAFolder.from_parameters(tmp_path / "weights.params.gz")
    assert again.weights_ == model.weights_
    assert again.predict(SEQUENCES) == STRUCTURES
    again.save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").weights_ == model.weights_


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base_pair_AU 1 2\n", "line 1: has 3 words"),
        ("base_pair_AU x\n", "line 1: 'x' is not a finite number"),
        ("base_pair_AU 1\nbase_pair_AU 1\n", "line 2: base_pair_AU occurs twice"),
        ("base_pair_AU 1\n", "lacks weight 'base_pair_AA' \\(707 in total\\)"),
    ],
)
def test_damaged_parameter_files_say_where(tmp_path, text, said):
    (tmp_path / "bad.params").write_text(text)
    with pytest.raises(InputError, match=said):
        RNAFolder.from_parameters(tmp_path / "bad.params")


def test_parameter_files_of_others(data_dir):
    for name in ("contrafold_v2.complementary", "eternafold_v1"):
        model = RNAFolder.from_parameters(data_dir / "rna" / f"{name}.params.gz")
        assert model.predict(["GGGGAAAACCCC"]) == ["((((....))))"]
        assert model.log_partition(["A"])[0] == pytest.approx(model.weights_["external_unpaired"])


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        ("GGGAAACCC", ["((...))"], "X must be a list"),
        ([], [], "no sequences"),
        ([""], [""], "sequence 0 of X is empty"),
        (["GGQAA"], ["....."], "sequence 0 of X has 'Q' at position 3"),
        (["GGAAC"], ["...."], "structure 0 of y has 4 characters, but its sequence has 5 letters"),
        (["GGAAC", "GAAAC"], ["....."], "X has 2 sequences, but y has 1 structures"),
        (["GGAAC"], ["((..)"], "structure 0 of y: the structure has a '\\(' at position 1"),
        ([5], ["."], "entry 0 of X is of type int"),
    ],
)
def test_bad_input_is_named(X, y, said):
    with pytest.raises(InputError, match=said):
        RNAFolder(tuner=None).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"least_hairpin": -1}, "least_hairpin=-1"),
        ({"longest_loop": 31}, "longest_loop=31"),
        ({"longest_sequence": "long"}, "longest_sequence='long'"),
        ({"groups": "loops"}, "groups='loops'"),
    ],
)
def test_bad_parameters_are_named(parameters, said):
    with pytest.raises(InputError, match=said):
        RNAFolder(tuner=None, **parameters).fit(SEQUENCES, STRUCTURES)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"gamma": 0.0}, "gamma=0.0"),
        ({"gamma": "6"}, "gamma='6'"),
        ({"method": "best"}, "method='best'"),
        ({"constraints": ["((((((.)))"]}, "constraints"),
        ({"constraints": ["(.)???????"]}, "structure 0 of constraints pairs G at 1 with G at 3"),
        ({"constraints": ["....|....."]}, "structure 0 of constraints says that A at 5 pairs"),
        ({"constraints": ["|||?????.."]}, "sequence 0: no structure agrees"),
    ],
)
def test_bad_calls_are_named(model, call, said):
    with pytest.raises(InputError, match=said):
        model.predict(["GGGAAAACCC"], **call)


def test_sequences_that_are_too_long_say_what_they_would_take(model):
    with pytest.raises(InputError, match=r"20,000 letters: its tables would take 29.0 GB; longest_sequence=6000"):
        model.predict(["A" * 20_000])


def test_letters_that_are_not_known_are_counted(model):
    with pytest.warns(UserWarning, match="other than A, C, G and U: 2"):
        assert model.predict(["GGGANXACCC"]) == ["(((....)))"]


def test_what_cannot_be_learned_from_is_named():
    long = "G" + "A" * 31 + "GAAAC" + "C"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        RNAFolder(tuner=None).fit(
            [*SEQUENCES, long, "GAAAG", "GGAAACAC"], [*STRUCTURES, "(" + "." * 31 + "(...))", "(...)", "([...).]"]
        )
    messages = " ".join(str(one.message) for one in told)
    assert (
        "1 of 9 structures cannot be used for training and are left out: 6 (the loop that letters 1 and 38 close has 31"
        in messages
    )
    assert "pairs of y that the model does not allow, such as GA: 1" in messages
    assert "in brackets other than ( and ): 1" in messages


def test_what_is_known_in_part_must_be_possible():
    """A hairpin of one letter where three are needed; in SEQUENCES there is one of two."""
    with pytest.warns(UserWarning, match=r"2 of 7 structures .* 6 \(no structure agrees with what is known\)"):
        RNAFolder(tuner=None, least_hairpin=3).fit([*SEQUENCES, "GAC"], [*STRUCTURES, "(?)"])


@pytest.mark.slow
def test_fold_a_loses_the_examples_that_the_original_loses(data_dir):
    records = [one for one in load_rna("s151rfam", data_dir) if "fold=A" in one.about]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        RNAFolder(tuner=None, strengths=100.0, tol=0.5).fit(
            [one.sequence for one in records], [one.structure for one in records]
        )
    assert any("4 of 75 structures cannot be used for training" in str(one.message) for one in told)


def test_weights_out_of_range_are_told(model):
    broken = clone(model).fit(SEQUENCES, STRUCTURES)
    broken._weights = np.full_like(broken._weights, 1e5)
    with pytest.raises(InputError, match="sequence 0: sums over its structures are out of the range"):
        broken.predict(["GGGAAAACCC"])


@pytest.mark.parametrize("groups", ["kind", None])
def test_kinds_that_are_left_out_have_no_weights_and_change_nothing(groups):
    """With the kinds left out by an enormous strength instead, the other weights are the same."""
    sequences, structures = ["GGGAAAUCCC", "GCGCAAGCGC", "CCAAAAGG"], ["(((....)))", "((((..))))", "((....))"]
    without = ["terminal_mismatch", "dangle"]
    model = RNAFolder(groups, None, 0.5, without=without, tol=1e-18).fit(sequences, structures)
    strengths = {kind: 1e9 if kind in without else 0.5 for kind in GROUPS}
    other = RNAFolder("kind", None, strengths, tol=1e-18).fit(sequences, structures)
    off = [name for name in model.weights_ if name.startswith(("terminal_mismatch", "dangle"))]
    assert len(off) == 256 + 128
    assert all(model.weights_[name] == 0.0 for name in off)
    np.testing.assert_allclose(list(model.weights_.values()), list(other.weights_.values()), atol=1e-6)
    assert "left out" in model.strengths_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)  # three molecules leave little of some kinds
        tuned = RNAFolder(groups, "mm", without=without).fit(sequences, structures)
    assert set(tuned.strengths_) == set(model.strengths_)
    assert tuned.strengths_["left out"] == 1.0


@pytest.mark.parametrize(
    ("without", "message"),
    [("dangle", "write a list of kinds"), (["helices"], "the unknown kind 'helices'"), (list(GROUPS), "every kind")],
)
def test_kinds_to_leave_out_that_make_no_sense_are_refused(without, message):
    with pytest.raises(InputError, match=message):
        RNAFolder(without=without).fit(["GGGAAAUCCC"], ["(((....)))"])


@pytest.mark.parametrize("table", [pd.DataFrame({"s": ["GGGAAAUCCC"]}), {"s": ["GGGAAAUCCC"]}])
def test_a_whole_table_is_refused_and_a_column_is_not(table):
    model = RNAFolder.pretrained()
    with pytest.raises(InputError, match="pass the column"):
        model.predict(table)
    assert len(model.predict(table["s"])) == 1


def test_what_is_not_known_is_neither_right_nor_wrong():
    model = RNAFolder.pretrained()
    (found,) = model.predict(["GGGAAAUCCC"])
    assert "(" in found
    for unknown in ("?" * 10, "|" * 10):
        with pytest.raises(InputError, match="has no known letter to score by"):
            model.score(["GGGAAAUCCC"], [unknown])
        assert model.score(["GGGAAAUCCC"] * 2, [unknown, "." * 10]) == 0.0
    assert model.score(["GGGAAAUCCC"], ["?" + found[1:-1] + "?"]) == 1.0
    assert model.score(["GGGAAAUCCC"], ["." * 10]) == 0.0
    for known in ("?" * 9 + ".", "?" * 9 + "." + "?"):  # a pair with a letter that is known to be unpaired is wrong
        assert model.score(["GGGAAAUCCC" + "A" * (len(known) - 10)], [known]) == 0.0


def test_pairs_that_the_model_does_not_know_count_as_unpaired_in_likelihoods(model):
    with_it, without = (model.log_likelihood(["GGAAAAAC"], [y]) for y in ("(.....).", "........"))
    assert with_it == without


def test_iterators_are_lists():
    X, y = ["GGGAAAUCCC", "GCGCAAGCGC"], ["(((....)))", "((((..))))"]
    model = RNAFolder(tuner=None, n_jobs=1).fit(iter(X), iter(y))
    assert model.weights_ == RNAFolder(tuner=None, n_jobs=1).fit(X, y).weights_
    assert model.score(iter(X), iter(y)) == model.score(X, y)
    assert model.log_likelihood(iter(X), iter(y)) == model.log_likelihood(X, y)


def test_nothing_to_learn_from_says_why():
    with pytest.raises(InputError, match=r"all are left out: 0 \(letters 1 and 3 are closer than 3 letters\)"):
        RNAFolder(tuner=None, least_hairpin=3).fit(["GAC"], ["(.)"])


@pytest.mark.parametrize("n_jobs", [0, -2])
def test_numbers_of_threads_are_checked_where_they_are_used(n_jobs):
    model = RNAFolder.pretrained().set_params(n_jobs=n_jobs)
    with pytest.raises(InputError, match=f"n_jobs={n_jobs}"):
        model.predict(["GGGAAAUCCC"])
