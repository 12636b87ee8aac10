"""Every tuner on every model: its promises, a fixed group, the same bits after an interruption."""

import numpy as np
import pytest
from tests import problems

from tikhon.errors import InputError
from tikhon.models import LeastSquares, NoiseIntegrated
from tikhon.testing import check_tuner
from tikhon.tuners import MM, TUNERS, Direct, Fixed, Gradient, Grid, make_tuner

GROUPS = {"one": None, "given": ["a", "a", "b", "b", "c", -1], "separate": "separate"}


@pytest.mark.slow
@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("seed", [0])
def test_conformance(model, groups, tuner, rng, tmp_path):
    problem = problems.problem(model, rng, GROUPS[groups])
    check_tuner(lambda checkpoint: TUNERS[tuner](checkpoint=checkpoint), problem, str(tmp_path / "run.checkpoint"))


@pytest.mark.parametrize("tuner", ["mm", "direct"])
@pytest.mark.parametrize("seed", [0])
def test_conformance_with_integrated_noise(tuner, rng, tmp_path):
    X, y = problems.data("least_squares", rng)
    problem = problems.problem("least_squares", rng, GROUPS["given"])
    problem = type(problem)(
        objective=NoiseIntegrated(LeastSquares(X, y)), groups=problem.groups, solver=problem.solver, total_weight=60.0
    )
    check_tuner(lambda checkpoint: TUNERS[tuner](checkpoint=checkpoint), problem, str(tmp_path / "run.checkpoint"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["quasi-newton", "conjugate-gradient"])
@pytest.mark.parametrize("hessian", ["analytic", "finite", "complex"])
@pytest.mark.parametrize("seed", [0])
def test_conformance_of_the_gradient_tuners_forms(method, hessian, rng, tmp_path):
    problem = problems.problem("logistic", rng, GROUPS["given"], solver="newton-cg")
    check_tuner(
        lambda checkpoint: Gradient(method=method, hessian=hessian, checkpoint=checkpoint), problem, str(tmp_path / "c")
    )


@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("seed", [0])
def test_fixed_groups_stay_fixed(tuner, rng):
    problem = problems.problem("logistic", rng, GROUPS["given"], fixed={"b": 3.5, "c": 0.0})
    result = check_tuner(lambda _: TUNERS[tuner](), problem)
    assert result.strengths["b"] == 3.5
    assert result.strengths["c"] == 0.0


@pytest.mark.parametrize("tuner", ["grid", "gradient"])
@pytest.mark.parametrize("seed", [0])
def test_threads_do_not_change_the_bits(tuner, rng):
    one, two = (
        TUNERS[tuner]().tune(problems.problem("softmax", np.random.default_rng(1), n_jobs=n_jobs)).weights
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("tuner", ["grid", "gradient"])
def test_rescaling_multiplies_learned_strengths_by_the_ratio_of_the_data(tuner, rng):
    seed = int(rng.integers(1000))
    plain, scaled = (
        TUNERS[tuner]().tune(
            problems.problem(
                "logistic", np.random.default_rng(seed), ["a"] * 5 + ["b"], fixed={"b": 2.0}, rescale=rescale
            )
        )
        for rescale in ("none", "n")
    )
    assert scaled.strengths["a"] == pytest.approx(1.5 * plain.strengths["a"])  # three folds
    assert scaled.strengths["b"] == 2.0
    assert any("rescale='n'" in note for note in scaled.notes)
    assert any("rescale='none'" in note for note in plain.notes)


def test_none_fits_at_the_given_strengths(rng):
    problem = problems.problem("logistic", rng, fixed=2.0)
    result = check_tuner(lambda _: Fixed(), problem)
    np.testing.assert_allclose(
        result.weights, problem.solver.minimise(problem.objective, problem.groups.expand(np.array([2.0]))).weights
    )


def test_none_without_strengths_names_the_group(rng):
    with pytest.raises(InputError, match=r"'a' has no strength"):
        Fixed().tune(problems.problem("logistic", rng, ["a"] * 6))


@pytest.mark.parametrize("tuner", ["grid", "gradient"])
def test_hold_out_tuners_refuse_to_work_without_data_to_judge_by(tuner, rng):
    problem = problems.problem("logistic", rng)
    with pytest.raises(InputError, match=r"needs hold-out data: set cv"):
        TUNERS[tuner]().tune(type(problem)(objective=problem.objective, groups=problem.groups, solver=problem.solver))


@pytest.mark.parametrize(
    ("tuner", "words"),
    [
        (MM(alpha=-1.0), "alpha=-1.0"),
        (MM(beta=0.0), "beta=0.0"),
        (MM(max_steps=0), "max_steps=0"),
        (MM(start={"z": 1.0}), "unknown group 'z'"),
        (Direct(tol=-1.0), "tol=-1.0"),
        (Grid(values=()), "values="),
        (Grid(values=(1.0, -1.0)), "values="),
        (Grid(refine=-1), "refine=-1"),
        (Grid(bounds=(1.0, 1.0)), "bounds="),
        (Gradient(start=0.0), "start=0.0"),
        (Gradient(bounds=(0.0, 1.0)), "bounds="),
        (Gradient(method="newton"), "method='newton'"),
        (Gradient(hessian="guess"), "hessian='guess'"),
    ],
)
@pytest.mark.parametrize("seed", [0])
def test_bad_settings_are_named(tuner, words, rng):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        tuner.tune(problems.problem("logistic", rng))


def test_unknown_names_list_the_known_ones():
    with pytest.raises(InputError, match=r"'bayes'.*'grid'.*'gradient'"):
        make_tuner("bayes")
    with pytest.raises(InputError, match="neither a name nor"):
        make_tuner(3)


def test_a_checkpoint_of_other_data_is_refused(rng, tmp_path):
    path = str(tmp_path / "c")
    MM(checkpoint=path).tune(problems.problem("logistic", rng))
    with pytest.raises(InputError, match="other data, groups or settings"):
        MM(checkpoint=path).tune(problems.problem("logistic", rng))
