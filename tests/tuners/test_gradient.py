"""The gradient tuner: it reaches the optimum, drives noise to the bound, and survives poor solves and kills."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize
from tests import problems

from tikhon.results import FitResult
from tikhon.solvers import Newton
from tikhon.tuners import Gradient, LeaveOneOut
from tikhon.tuners.hypergradient import hypergradient


@pytest.mark.slow
@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("method", ["quasi-newton", "conjugate-gradient"])
def test_reaches_the_optimum_that_scipy_finds(model, method, rng):
    problem = problems.problem(model, rng, ["a", "a", "a", "b", "b", "b"])
    ours = Gradient(method=method, tol=1e-5, bounds=(1e-4, 1e4), max_steps=500).tune(problem)
    sharp = replace(problem, solver=Newton(tol=1e-24))

    def outer(theta):
        found = hypergradient(sharp, theta, accuracy=1e-9)
        return found.value, found.gradient

    theirs = minimize(outer, np.zeros(2), jac=True, bounds=[(np.log(1e-4), np.log(1e4))] * 2, method="L-BFGS-B",
                      options={"ftol": 1e-13, "gtol": 1e-9})  # fmt: skip
    assert ours.criterion == pytest.approx(theirs.fun, rel=2e-4)


def test_never_worse_than_the_start_and_accepted_steps_fall(rng):
    problem = problems.problem("softmax", rng, "separate")
    result = Gradient().tune(problem)
    values = [step.criterion for step in result.trace if step.accepted]
    assert result.criterion <= values[0]
    assert all(b <= a + 1e-6 * abs(a) for a, b in itertools.pairwise(values))


def test_an_irrelevant_group_goes_to_its_bound_and_is_named():
    """Three columns agree with the target in one fold and contradict it in the other: any weight on them harms."""
    rng = np.random.default_rng(5)
    fold = np.arange(200) % 2
    X = rng.normal(size=(200, 6))
    y = (X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=200) > 0).astype(float)
    X[:, 3:] += np.outer((2 * y - 1) * (2 * fold - 1), np.ones(3))
    template = problems.problem("logistic", rng, ["signal"] * 3 + ["noise"] * 3, n=200)
    whole = problems.objective("logistic", X, y)
    pairs = [
        type(template.pairs[0])(whole.reweighted((fold != k) * 1.0), whole.reweighted((fold == k) * 1.0), 100.0, 100.0)
        for k in range(2)
    ]
    result = Gradient(bounds=(1e-4, 1e3), tol=1e-6).tune(replace(template, objective=whole, pairs=pairs))
    assert result.strengths["noise"] == pytest.approx(1e3)
    assert result.strengths["signal"] < 10.0
    assert any("'noise'" in warning and "upper bound" in warning for warning in result.warnings)


@dataclass(frozen=True)
class Sloppy:
    """A solver that stops far too early, as asked, on some calls."""

    sharp: Newton
    poor_until_tol: float

    def minimise(self, objective, strength, start=None, *, tol=None):
        fit = self.sharp.minimise(objective, strength, start, tol=tol)
        if tol is not None and tol > self.poor_until_tol:
            return replace(fit, status="max_iter", relative_gap=1.0, reason="stopped on purpose")
        return fit


def test_a_poor_solve_is_tightened_and_the_trace_says_so(rng):
    problem = problems.problem("logistic", rng, solver=Sloppy(Newton(tol=1e-18), poor_until_tol=1e-12))
    result = Gradient().tune(problem)
    assert result.status == "converged"
    assert any("tightened" in step.note and "stopped on purpose" in step.note for step in result.trace)


def test_a_solve_that_stays_poor_is_rejected_and_the_start_kept(rng):
    problem = problems.problem("logistic", rng, solver=Sloppy(Newton(tol=1e-18), poor_until_tol=0.0))
    result = Gradient(max_steps=5).tune(problem)
    assert any("rejected" in step.note for step in result.trace)
    assert result.strengths["all"] == pytest.approx(result.trace[0].strengths[0])
    assert isinstance(problem.solver.minimise(problem.objective, problem.groups.expand(np.ones(1))), FitResult)


def test_one_linear_solve_per_pair_whatever_the_number_of_groups(rng, monkeypatch):
    import tikhon.tuners.hypergradient as module

    calls = []
    monkeypatch.setattr(module, "_adjoint", lambda *a, inner=module._adjoint: calls.append(1) or inner(*a))
    for groups, n_groups in ((None, 1), ("separate", 6)):
        calls.clear()
        problem = problems.problem("logistic", rng, groups)
        hypergradient(problem, np.zeros(n_groups))
        assert len(calls) == len(problem.pairs)


KILLED = textwrap.dedent(
    """
    import sys, time
    import numpy as np
    from tests import problems
    from dataclasses import replace
    from tikhon.tuners import Gradient
    problem = problems.problem("logistic", np.random.default_rng(7), list(np.arange(100) // 2), n=400, p=100)
    pause = float(sys.argv[3])
    result = Gradient(checkpoint=sys.argv[1], max_steps=25).tune(replace(problem, on_step=lambda step: time.sleep(pause)))
    np.save(sys.argv[2], result.weights)
    """
)


@pytest.mark.slow
def test_killed_five_times_and_resumed_ends_with_the_same_bits(tmp_path):
    """SIGKILL at random moments, 50 groups; each start goes on from the last checkpoint."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path]), "OPENBLAS_NUM_THREADS": "1"}

    def start(checkpoint, out, pause):
        return subprocess.Popen([sys.executable, "-c", KILLED, str(checkpoint), str(out), str(pause)], env=environment)

    whole = tmp_path / "whole.npy"
    assert start(tmp_path / "whole.checkpoint", whole, 0.0).wait() == 0
    rng = np.random.default_rng()
    checkpoint, out = tmp_path / "killed.checkpoint", tmp_path / "killed.npy"
    n_killed, seen = 0, b""
    while n_killed < 5:
        process = start(checkpoint, out, 0.1)
        while process.poll() is None and (checkpoint.read_bytes() if checkpoint.exists() else b"") == seen:
            time.sleep(0.01)  # at least one step of progress each time
        time.sleep(rng.uniform(0.0, 0.25))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        seen = checkpoint.read_bytes()
        n_killed += 1
    assert n_killed == 5
    assert start(checkpoint, out, 0.0).wait() == 0
    np.testing.assert_array_equal(np.load(out), np.load(whole))


@pytest.mark.slow
@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("tuner", [Gradient, LeaveOneOut])
@pytest.mark.parametrize("least_gain", [1e-2, 1e-3])
def test_it_ends_where_further_steps_would_gain_what_is_asked_at_most(model, tuner, least_gain, rng):
    """Both groups hold signal and noise, so that the criterion has its least value at finite strengths.

    The next step's gain is foretold by a parabola: three times as much may be left.
    """
    problem = problems.problem(model, rng, ["a", "b", "a", "a", "b", "b"])
    sharp = tuner(tol=1e-6, max_steps=500).tune(problem)
    content = tuner(tol=1e-6, least_gain=least_gain).tune(problem)
    assert content.status == "converged"
    assert len(content.trace) < len(sharp.trace)
    assert abs(content.criterion - sharp.criterion) <= 3.0 * least_gain * abs(sharp.criterion)
