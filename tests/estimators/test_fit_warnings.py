"""``tuning_.warnings``: every warning that a fit raised, in the same order, each pointing to the user's line."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tikhon import MM, ChainCRF, Grid, LogisticRegression, Ridge, RNAFolder, TuningWarning, load
from tikhon.estimators import memory as memory_module

SEQUENCES = ["GGGAAAUCCC", "GCGCAAGCGC", "CCAAAAGG"]
STRUCTURES = ["(((....)))", "((((..))))", "((....))"]
TOKENS, LABELS = [[["word=a"], ["word=b"]], [["word=b"], ["word=a"]]] * 4, [["x", "y"], ["y", "x"]] * 4


def linear(seed=0):
    X = np.random.default_rng(seed).normal(size=(60, 4))
    return X, X[:, 0] - X[:, 1] > 0


def fitted(model, *data):
    """The model, and the warnings that were raised: all of them, repeated ones too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data)
    return model, caught


def scales():
    X, y = linear()
    return LogisticRegression(tuner=None), (X * [1.0, 1e6, 1.0, 1.0], y)


def light_rows():
    X, y = linear()
    return Ridge(tuner="loo"), (X, y, np.full(60, 1e-3))


def no_convergence():
    return LogisticRegression(tuner=MM(max_steps=1)), linear()


def border():
    return Ridge(tuner=Grid(values=(1e4, 1e5), widen=False, refine=0)), linear()


def several():
    X, y = linear()
    model = LogisticRegression(tuner=Grid(values=(1e7, 1e8), widen=False, refine=0))
    return model, (X * [1.0, 1e6, 1.0, 1.0], y, np.full(60, 1e-3))


def memory():
    return ChainCRF(tuner=None), (TOKENS, LABELS)


def chain_without_convergence():
    return ChainCRF(tuner=MM(max_steps=1)), (TOKENS, LABELS)


def letters():
    return RNAFolder(tuner=None), (["GGGNAAUCCC", *SEQUENCES[1:]], STRUCTURES)


def pseudoknots():
    return RNAFolder(tuner=None), (SEQUENCES, ["(((.[.])))", *STRUCTURES[1:]])


def unknown_pairs():
    return RNAFolder(tuner=None), (["GGGAAAUCCA", *SEQUENCES[1:]], STRUCTURES)


def left_out():
    return RNAFolder(tuner=None), ([*SEQUENCES, "AAAA"], [*STRUCTURES, "|..."])


CASES = {
    scales: [(TuningWarning, "columns of very different scale")],
    light_rows: [(TuningWarning, "sample weights sum to 0.06")],
    no_convergence: [(ConvergenceWarning, "'mm' did not converge: max_steps")],
    border: [(TuningWarning, "at the border of the grid")],
    several: [
        (TuningWarning, "columns of very different scale"), (TuningWarning, "sample weights sum to 0.06"),
        (TuningWarning, "at the border of the grid"),
    ],
    memory: [(TuningWarning, "GiB are free")],
    chain_without_convergence: [(ConvergenceWarning, "'mm' did not converge: max_steps")],
    letters: [(UserWarning, "letters other than A, C, G and U: 1")],
    pseudoknots: [(UserWarning, "pseudoknots are read as unpaired")],
    unknown_pairs: [(UserWarning, "pairs of y that the model does not allow")],
    left_out: [(UserWarning, "1 of 4 structures cannot be used for training")],
}  # fmt: skip


@pytest.fixture
def little_memory(monkeypatch, request):
    if request.getfixturevalue("case") is memory:
        monkeypatch.setattr(memory_module, "LITTLE", 0.0)
        monkeypatch.setattr(memory_module, "available_memory", lambda: 1024.0)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_result_keeps_every_warning_of_the_fit(case, tmp_path):
    model, data = case()
    model, caught = fitted(model, *data)
    assert [str(warning.message) for warning in caught] == list(model.tuning_.warnings)
    assert {warning.filename for warning in caught} == {__file__}
    for category, text in CASES[case]:
        (found,) = [warning for warning in caught if text in str(warning.message)]
        assert found.category is category
    # A file keeps them.
    model.save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").tuning_.warnings == model.tuning_.warnings


def test_a_fit_without_warnings_has_none(tmp_path):
    model, caught = fitted(LogisticRegression(tuner="mm"), *linear())
    assert (caught, model.tuning_.warnings) == ([], ())


def test_every_fit_begins_with_no_warnings():
    model, data = scales()
    for _ in range(2):
        model, caught = fitted(model, *data)
        assert len(caught) == len(model.tuning_.warnings) == 1
    X, y = linear()
    assert fitted(model, X, y)[0].tuning_.warnings == ()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_memory_of_tables_is_told_before_the_work(monkeypatch, n_classes):
    monkeypatch.setattr(memory_module, "LITTLE", 0.0)
    monkeypatch.setattr(memory_module, "available_memory", lambda: 512.0)
    model = LogisticRegression(tuner="mm")
    model._on_step = lambda step: pytest.fail("the tuning began")
    X, _ = linear()
    expected = r"weights of 4 columns.* take about 0.0 GiB, but only 0.0 GiB are free"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TuningWarning, match=expected):
            model.fit(X, np.arange(len(X)) % n_classes)


def test_free_memory_includes_what_the_system_can_drop(monkeypatch, tmp_path):
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 60 kB\n")
    monkeypatch.setattr(memory_module, "MEMINFO", told)
    assert memory_module.available_memory() == 61440.0
    told.write_text("MemAvailable:\n")
    assert memory_module.available_memory() is None
    monkeypatch.setattr(memory_module, "MEMINFO", tmp_path / "missing")
    assert memory_module.available_memory() is None


def test_memory_is_told_before_the_work(monkeypatch):
    """A process that runs out of memory tells nothing at its end."""
    monkeypatch.setattr(memory_module, "LITTLE", 0.0)
    monkeypatch.setattr(memory_module, "available_memory", lambda: 1024.0)
    model = ChainCRF(tuner="mm")
    model._on_step = lambda step: pytest.fail("the tuning began")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TuningWarning, match="GiB are free"):
            model.fit(TOKENS, LABELS)


def test_long_passes_are_told_before_the_work():
    """All steps between 2,200 labels are 4.8 million, taken for each of 4,400 tokens in every pass."""
    labels = [f"label{number}" for number in range(2200)]
    model = ChainCRF(tuner="mm", all_pairs=True)
    model._on_step = lambda step: pytest.fail("the tuning began")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TuningWarning, match=r"a pass over 4,400 tokens .* takes about 14 s, .* fewer labels"):
            model.fit([[["a"]] * 2200] * 2, [labels, labels[::-1]])


def called(function, *arguments):
    """A line of the user's in a function of the user's."""
    return function(*arguments)


def test_warnings_of_predictions_point_to_the_users_line():
    chain = ChainCRF(tuner=None).fit(TOKENS, LABELS)
    folder = RNAFolder(tuner=None).fit(SEQUENCES, STRUCTURES)
    for predict, data in (
        (chain.predict, [[["new"]]]), (chain.predict_marginals, [[["new"]]]), (folder.predict, ["GGNAAACC"]),
        (folder.log_partition, ["GGNAAACC"]),
    ):  # fmt: skip
        with pytest.warns(UserWarning, match="no token has a feature|other than A, C, G and U") as caught:
            called(predict, data)
        assert [(w.filename, w.lineno) for w in caught] == [(__file__, called.__code__.co_firstlineno + 2)]
