"""The conformance suites must fail where they should: each test breaks one promise."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests import problems
from tikhon.testing import check_hypergradient, check_objective, check_tuner
from tikhon.tuners import MM, Gradient, Tuner


@dataclass(frozen=True, eq=False)
class Broken:
    """A logistic objective with one thing wrong."""

    inner: Any
    fault: str
    calls: list[int]
    is_convex: bool = True

    @property
    def n_weights(self):
        return self.inner.n_weights

    def loss_gradient(self, weights):
        loss, gradient = self.inner.loss_gradient(weights)
        if self.fault == "gradient":
            gradient = gradient * 1.001
        if self.fault == "modifies":
            weights += 1e-3
        if self.fault == "random":
            self.calls.append(1)
            loss += 1e-9 * len(self.calls)
        return loss, gradient

    def hessian_at(self, weights):
        product = self.inner.hessian_at(weights)
        if self.fault == "hessian":
            return lambda v: 1.001 * product(v)
        if self.fault == "asymmetric":
            return lambda v: product(v) + 1e-7 * np.roll(v, 1)
        if self.fault == "negative":
            return lambda v: -product(v)
        return product


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("gradient", "gradient . v"),
        ("hessian", "Hessian product differs"),
        ("asymmetric", "not symmetric"),
        ("negative", "Hessian product differs"),
        ("modifies", "modified the weights|another loss|gradient . v"),
        ("random", "another loss the second time"),
    ],
)
def test_a_broken_objective_is_caught(fault, words, rng):
    X, y = problems.data("logistic", rng)
    with pytest.raises(AssertionError, match=words):
        check_objective(Broken(problems.objective("logistic", X, y), fault, []), rng)


def test_a_sound_objective_passes(rng):
    X, y = problems.data("logistic", rng)
    check_objective(Broken(problems.objective("logistic", X, y), "none", []), rng)


def test_a_wrong_hypergradient_is_caught(rng, monkeypatch):
    import tikhon.testing as module

    real = module.hypergradient
    monkeypatch.setattr(
        module, "hypergradient", lambda *a, **k: replace(found := real(*a, **k), gradient=1.001 * found.gradient)
    )
    with pytest.raises(AssertionError, match="implicit slopes"):
        check_hypergradient(problems.problem("logistic", rng))


@dataclass(frozen=True)
class Cheat(Tuner):
    """A tuner that breaks a promise after an honest tuning."""

    fault: str
    checkpoint: str | None = None
    name = "cheat"
    uses_pairs = needs_likelihood = False

    def tune(self, problem):
        result = MM(checkpoint=self.checkpoint).tune(problem)
        if self.fault == "weights":
            return replace(result, weights=result.weights + 0.01)
        if self.fault == "names":
            return replace(result, strengths={"other": 1.0})
        if self.fault == "fixed":
            return replace(result, strengths=result.strengths | {"b": 9.0})
        if self.fault == "trace":
            return replace(result, trace=result.trace[1:])
        return result


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("weights", "not a minimum"),
        ("names", "strengths"),
        ("fixed", "fixed strengths moved"),
        ("trace", "missed a step"),
    ],
)
def test_a_cheating_tuner_is_caught(fault, words, rng):
    problem = problems.problem("logistic", rng, ["a", "a", "a", "b", "b", "b"], fixed={"b": 2.0})
    with pytest.raises(AssertionError, match=words):
        check_tuner(lambda _: Cheat(fault), problem)


def test_a_tuner_that_does_not_resume_is_caught(rng, tmp_path):
    problem = problems.problem("logistic", rng)

    def forgetful(checkpoint):
        return Gradient(checkpoint=checkpoint, start=1.0 if checkpoint is None else 3.0)

    with pytest.raises(AssertionError, match=r"other bits|another trace"):
        check_tuner(forgetful, problem, str(tmp_path / "c"))
