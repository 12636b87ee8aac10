"""Trainers as users meet them: what they return, when they stop, what they refuse, and how they resume."""

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests import problems
from tests.estimators.test_chain_crf import made

import tikhon
from tikhon import ChainCRF, HiddenUnitCRF, InputError
from tikhon.errors import FileFormatError, MissingCapability
from tikhon.groups import Groups
from tikhon.models.chain.learner import ChainLearner, share_wrong
from tikhon.trainers import LBFGS, SGD, TRAINERS, Margin, Perceptron
from tikhon.tuners.base import Problem
from tikhon.tuners.journal import Journal

KINDS = [(ChainCRF, {}), (HiddenUnitCRF, {"n_hidden": 20})]
ALL = [SGD(epochs=12), Perceptron(epochs=12, burn_in=2), Margin(epochs=12, burn_in=2), LBFGS(iterations=12)]
STOPPING = [
    SGD(epochs=12, early_stopping=True), Margin(epochs=12, burn_in=1, early_stopping=True, look_ahead=4),
    LBFGS(iterations=12, look_ahead=5), SGD(epochs=8, early_stopping=True, refit=True, look_ahead=3),
]  # fmt: skip
IDS = [f"{t.name}{'-refit' if getattr(t, 'refit', False) else ''}" for t in STOPPING]


def noisy(rng, n=40):
    """Sequences whose labels are learned only in part, so that held-out errors do not fall to 0."""
    X, y = made(rng, n=n)
    flat = sorted({label for labels in y for label in labels})
    return X, [[label if rng.random() < 0.8 else flat[rng.integers(len(flat))] for label in labels] for labels in y]


def fitted(kind, settings, trainer, X, y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few epochs: the last may be the best
        return kind(**settings, trainer=trainer, **{"n_jobs": 1} | more).fit(X, y)


@pytest.mark.parametrize(("kind", "settings"), KINDS)
@pytest.mark.parametrize("trainer", ALL, ids=lambda t: t.name)
@pytest.mark.parametrize("order", [1, 2])
def test_every_trainer_learns_every_chain(kind, settings, trainer, order, rng):
    X, y = made(rng, n=120)
    model = fitted(kind, settings, trainer, X[:80], y[:80], order=order)
    most_frequent = max(np.mean(np.concatenate(y[80:]) == label) for label in model.classes_)
    assert model.score(X[80:], y[80:]) > most_frequent + 0.1
    assert model.tuning_.tuner == trainer.name
    assert all(strength == 0.0 for strength in model.strengths_.values())
    assert model.tuning_.extras["training"]["n_rounds"] == len(model.tuning_.trace)


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_trainers_have_names(name, rng):
    X, y = made(rng, n=20)
    trained = ChainCRF(trainer=name, tuner=None if name != "lbfgs" else "mm").fit(X, y)
    assert trained.tuning_.tuner == (name if name != "lbfgs" else "mm")


@pytest.mark.parametrize(("kind", "settings"), KINDS)
@pytest.mark.parametrize("trainer", STOPPING[:3], ids=IDS[:3])
def test_the_best_iterate_is_returned_not_the_last(kind, settings, trainer, rng, monkeypatch):
    X, y = noisy(rng)
    seen = []

    def watched(holdout, layout, weights, **options):
        seen.append((share_wrong(holdout, layout, weights, **options), weights.copy()))
        return seen[-1][0]

    for module in ("epochs", "lbfgs"):
        monkeypatch.setattr(f"tikhon.trainers.{module}.share_wrong", watched)
    model = fitted(kind, settings, trainer, X, y)
    errors = [error for error, _ in seen]
    best = int(np.argmin(errors))
    assert [step.criterion for step in model.tuning_.trace] == errors
    assert model.tuning_.extras["training"] == {
        "best_round": best + 1, "n_rounds": len(errors), "early_stopping": True
    }  # fmt: skip
    np.testing.assert_array_equal(model.tuning_.weights, seen[best][1])
    assert model.tuning_.criterion == errors[best]
    assert f"{best + 1}, {errors[best]:.4g}" in model.tuning_.reason


def test_it_stops_where_look_ahead_finds_nothing_better(rng):
    X, y = noisy(rng)
    model = fitted(ChainCRF, {}, SGD(epochs=200, early_stopping=True, look_ahead=3, burn_in=0), X, y)
    training = model.tuning_.extras["training"]
    assert training["n_rounds"] == training["best_round"] + 3
    assert model.tuning_.converged


def test_a_best_round_at_the_end_is_told(rng):
    X, y = made(rng, n=60)
    slow = SGD(epochs=3, step=1e-4, early_stopping=True, burn_in=0)
    model = fitted(HiddenUnitCRF, {"n_hidden": 5}, LBFGS(iterations=2), X, y)
    if model.tuning_.extras["training"]["best_round"] == 2:
        assert model.tuning_.status == "max_steps"
    assert fitted(ChainCRF, {}, slow, X, y).tuning_.extras["training"]["n_rounds"] == 3


def test_refits_take_all_sequences_for_the_number_of_epochs_found(rng):
    X, y = noisy(rng)
    model = fitted(ChainCRF, {}, SGD(epochs=9, early_stopping=True, refit=True, burn_in=1), X, y)
    best = model.tuning_.extras["training"]["best_round"]
    again = [step for step in model.tuning_.trace if step.note.endswith("again, on all sequences")]
    assert len(again) == best
    stopped = fitted(ChainCRF, {}, SGD(epochs=9, early_stopping=True, burn_in=1), X, y)
    assert stopped.tuning_.extras["training"]["best_round"] == best
    assert not np.array_equal(model.tuning_.weights, stopped.tuning_.weights)


def test_the_average_of_weights_is_the_model(rng):
    """With a burn-in of all epochs but one and one sequence, the average of one epoch is its end."""
    X, y = made(rng, n=1)
    last = fitted(ChainCRF, {}, SGD(epochs=4, burn_in=3), X, y)
    averaged = fitted(ChainCRF, {}, SGD(epochs=4, burn_in=2), X, y)
    before = fitted(ChainCRF, {}, SGD(epochs=3, burn_in=2), X, y)
    np.testing.assert_allclose(
        averaged.tuning_.weights, 0.5 * (last.tuning_.weights + before.tuning_.weights), atol=1e-12
    )


@pytest.mark.parametrize(("kind", "settings"), KINDS)
@pytest.mark.parametrize("trainer", STOPPING, ids=IDS)
def test_an_interrupted_training_resumes_to_the_same_bits(kind, settings, trainer, rng, tmp_path, monkeypatch):
    X, y = noisy(rng)
    whole = fitted(kind, settings, trainer, X, y)
    n_steps = len(whole.tuning_.trace)
    kept, record = str(tmp_path / "kept"), Journal.record
    for stop in (1, n_steps // 2, n_steps - 1):

        def interrupted(journal, *arguments, stop=stop):
            record(journal, *arguments)
            if len(journal.trace) == stop:
                raise KeyboardInterrupt

        saving = dataclasses.replace(trainer, checkpoint=kept)
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "record", interrupted)
            with pytest.raises(KeyboardInterrupt):
                fitted(kind, settings, saving, X, y)
        resumed = fitted(kind, settings, saving, X, y)
        np.testing.assert_array_equal(resumed.tuning_.weights, whole.tuning_.weights)
        assert [s.criterion for s in resumed.tuning_.trace] == [s.criterion for s in whole.tuning_.trace]
        assert resumed.tuning_.reason == whole.tuning_.reason
        (tmp_path / "kept").unlink()


def test_a_checkpoint_of_other_settings_is_refused(rng, tmp_path):
    X, y = made(rng, n=20)
    path = str(tmp_path / "kept")
    fitted(ChainCRF, {}, SGD(epochs=3, checkpoint=path), X, y)
    with pytest.raises(InputError, match="belongs to other data, groups or settings"):
        fitted(ChainCRF, {}, SGD(epochs=3, step=1.0, checkpoint=path), X, y)
    (tmp_path / "kept").write_bytes(b"damaged")
    with pytest.raises(FileFormatError, match="delete it or name another file"):
        fitted(ChainCRF, {}, SGD(epochs=3, checkpoint=path), X, y)


def test_ctrl_c_keeps_the_best_weights(rng, monkeypatch):
    X, y = noisy(rng)
    record = Journal.record

    def interrupted(journal, *arguments):
        record(journal, *arguments)
        if len(journal.trace) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "record", interrupted)
    model = ChainCRF(trainer=SGD(epochs=20, early_stopping=True))
    with (
        pytest.warns(ConvergenceWarning, match="interrupted"),
        pytest.raises(KeyboardInterrupt, match="interrupted in epoch 6"),
    ):
        model.fit(X, y)
    errors = [step.criterion for step in model.tuning_.trace]
    assert model.tuning_.criterion == min(errors)
    assert len(model.predict(X)) == len(X)


@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_steps_that_diverge_are_halved_and_told(kind, settings, rng):
    X, y = made(rng, n=40)
    model = fitted(kind, settings, SGD(epochs=6, step=1e7), X, y)
    notes = [step.note for step in model.tuning_.trace if step.note]
    assert notes
    assert all("diverged: step halved to" in note for note in notes)
    assert np.isfinite(model.tuning_.weights).all()
    assert len(model.tuning_.trace) == 6


def test_a_step_without_end_ends_with_a_reason(rng, monkeypatch):
    monkeypatch.setattr(ChainLearner, "learn", lambda *_, **__: np.nan)
    X, y = made(rng, n=10)
    with pytest.warns(ConvergenceWarning, match="diverged with any step"):
        model = ChainCRF(trainer="sgd").fit(X, y)
    assert model.tuning_.status == "stalled"
    assert np.isfinite(model.tuning_.weights).all()


def test_predictions_are_as_exact_for_any_number_of_threads(rng):
    X, y = made(rng, n=40)
    for trainer in ALL:
        one, two = (fitted(HiddenUnitCRF, {"n_hidden": 5}, trainer, X, y, n_jobs=n_jobs) for n_jobs in (1, 2))
        np.testing.assert_array_equal(one.tuning_.weights, two.tuning_.weights)


@pytest.mark.parametrize("trainer", ["sgd", "margin"])
def test_strengths_shrink_weights_of_sgd_and_are_refused_by_perceptrons(trainer, rng):
    X, y = made(rng, n=40)
    if trainer == "margin":
        with pytest.raises(InputError, match="'margin' has no penalty"):
            ChainCRF(trainer=trainer, strengths=1.0).fit(X, y)
        return
    free, weak, strong = (
        fitted(ChainCRF, {}, SGD(epochs=100, step=3.0), X, y, strengths=strengths) for strengths in (None, 0.1, 10.0)
    )
    norms = [np.linalg.norm(model.tuning_.weights) for model in (free, weak, strong)]
    assert norms[0] > norms[1] > norms[2]
    exact = ChainCRF(tuner=None, strengths=10.0, tol=1e-8).fit(X, y)
    error = np.linalg.norm(strong.tuning_.weights - exact.tuning_.weights)
    assert error < 0.1 * np.linalg.norm(exact.tuning_.weights)


def test_warm_starts_go_on(rng):
    X, y = made(rng, n=60)
    model = ChainCRF(trainer=SGD(epochs=5), warm_start=True, n_jobs=1).fit(X, y)
    before = model.tuning_.weights
    model.set_params(trainer=SGD(epochs=1, step=1e-12)).fit(X, y)
    np.testing.assert_allclose(model.tuning_.weights, before, atol=1e-9)


def test_partial_labels_and_weights_of_zero(rng):
    X, y = made(rng, n=60)
    partial = [[None if rng.random() < 0.3 else label for label in labels] for labels in y]
    for trainer in ALL:
        model = fitted(ChainCRF, {}, trainer, X, partial)
        assert model.score(X, y) > 0.6
    weight = np.ones(60)
    weight[40:] = 0.0
    some = ChainCRF(trainer=SGD(epochs=4)).fit(X, y, sample_weight=weight)
    assert some.score(X[:40], y[:40]) > 0.6


def test_labels_that_only_held_out_sequences_have(rng):
    X, y = made(rng, n=20)
    y = [*y[:-1], ["only here"] * len(y[-1])]
    trainer = SGD(epochs=3, early_stopping=True)
    model = fitted(ChainCRF, {}, trainer, X, y, cv=[(np.arange(15), np.arange(15, 20))])
    assert "only here" in model.classes_
    assert 0.0 < model.tuning_.criterion <= 1.0


def test_perceptrons_predict_with_the_best_states(rng, tmp_path):
    X, y = made(rng, n=40)
    model = fitted(HiddenUnitCRF, {"n_hidden": 6}, "margin", X, y)
    assert model._layout.emission.in_best_states
    model.save(tmp_path / "model")
    restored = tikhon.load(tmp_path / "model")
    assert restored._layout.emission.in_best_states
    assert restored.predict(X) == model.predict(X)
    summed = fitted(HiddenUnitCRF, {"n_hidden": 6}, "sgd", X, y)
    assert not summed._layout.emission.in_best_states


def test_trainers_are_stored_with_their_options(rng, tmp_path):
    X, y = made(rng, n=20)
    model = fitted(ChainCRF, {}, Margin(epochs=4, rho=0.5, burn_in=1, checkpoint=str(tmp_path / "kept")), X, y)
    model.save(tmp_path / "model")
    assert tikhon.load(tmp_path / "model").trainer == Margin(epochs=4, rho=0.5, burn_in=1)


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ("adam", "trainer='adam': write one of 'lbfgs', 'sgd'"), (SGD, "or an object such as SGD"), (3, "trainer=3"),
        (SGD(step=0.0), "step=0.0"), (SGD(step=np.nan), "step=nan"), (SGD(decay=1.5), "decay=1.5: .* at most 1"),
        (SGD(epochs=0), "epochs=0"), (SGD(batch=0), "batch=0"), (SGD(burn_in=-1), "burn_in=-1"),
        (SGD(look_ahead=0), "look_ahead=0"), (SGD(early_stopping="yes"), "early_stopping='yes'"),
        (SGD(random_state=-1), "random_state=-1"), (Margin(rho=-1.0), "rho=-1.0"), (Perceptron(step=-1.0), "step=-1.0"),
        (LBFGS(iterations=0), "iterations=0"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(trainer, message, rng):
    with pytest.raises(InputError, match=message):
        ChainCRF(trainer=trainer).fit(*made(rng, n=20))


def test_tuners_do_not_go_with_trainers_that_learn_no_strengths(rng):
    X, y = made(rng, n=20)
    with pytest.raises(InputError, match="trainer='sgd' learns no strengths: leave tuner='mm' out"):
        ChainCRF(trainer="sgd", tuner="mm").fit(X, y)
    with pytest.raises(InputError, match="needs a strength for every group or for none"):
        ChainCRF(trainer="sgd", strengths={"transitions": 1.0}).fit(X, y)
    with pytest.raises(InputError, match="nothing to hold out"):
        ChainCRF(trainer=SGD(early_stopping=True)).fit(X[:1], y[:1])
    with pytest.raises(InputError, match="one hold-out"):
        ChainCRF(trainer=SGD(early_stopping=True), cv=5).fit(X, y)


def test_only_chains_are_trained(rng):
    objective = problems.objective("logistic", *problems.data("logistic", rng, 20, 3))
    problem = Problem(objective=objective, groups=Groups(np.zeros(4, int), ("all",), np.zeros(1)), solver=None)
    with pytest.raises(MissingCapability, match="the trainer 'sgd' trains chains over labels, not Logistic"):
        SGD().tune(problem)
