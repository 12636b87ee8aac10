"""A general wrapper of any objective forwards its hints and declares what it can do: every tuner then gives the same bits."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests import problems
from tests.models import test_chain

from tikhon.data.dot_bracket import partners_of
from tikhon.errors import MissingCapability
from tikhon.groups import Groups
from tikhon.models import NoiseIntegrated
from tikhon.models.chain.layout import layout_of
from tikhon.models.chain.objective import Chain
from tikhon.models.folding.objective import Folding, example
from tikhon.models.folding.structures import Rules, encoded
from tikhon.models.folding.weights import folding_weights
from tikhon.objective import Curved, Factorable, Objective, Pair, Rows, capabilities_of, hints_of
from tikhon.solvers import make_solver
from tikhon.tuners import MM, Auto, Direct, Evidence, Gradient, Grid, LeaveOneOut, Problem

MODELS = (
    "logistic",
    "logistic sparse",
    "softmax",
    "least_squares",
    "least_squares sparse",
    "noise",
    "chain",
    "folding",
)
TUNERS = {
    "auto": Auto(tol=1e-2, max_steps=4),
    "loo": LeaveOneOut(tol=1e-2, max_steps=4),
    "evidence": Evidence(tol=1e-2, max_steps=4),
    "gradient": Gradient(tol=1e-2, max_steps=3),
    "grid": Grid(values=(0.25, 4.0), widen=False, refine=0),
    "mm": MM(tol=1e-2, max_steps=3),
    "direct": Direct(tol=1e-2, max_steps=10),
}


@dataclass(frozen=True, eq=False)
class Watched:
    """Counts gradients; all else is that of the objective inside."""

    inside: Objective
    counts: list

    def __getattr__(self, name):
        return getattr(self.inside, name)

    @property
    def capabilities(self):
        return capabilities_of(self.inside)

    @property
    def hints(self):
        return hints_of(self.inside)

    @property
    def n_weights(self):
        return self.inside.n_weights

    @property
    def is_convex(self):
        return self.inside.is_convex

    def loss_gradient(self, weights):
        self.counts.append(1)
        return self.inside.loss_gradient(weights)

    def hessian_at(self, weights):
        return self.inside.hessian_at(weights)

    def reweighted(self, row_weights):
        return Watched(self.inside.reweighted(row_weights), self.counts)

    def factorise(self, weights, strength):
        return self.inside.factorise(weights, strength)

    def curvature_at(self, weights, strength):
        return self.inside.curvature_at(weights, strength)


def with_folds(objective, groups):
    fold = np.arange(objective.n_rows) % 2
    parts = [[objective.reweighted(1.0 * mask) for mask in (fold != k, fold == k)] for k in range(2)]
    counts = [(float((fold != k).sum()), float((fold == k).sum())) for k in range(2)]
    return Problem(
        objective=objective, groups=groups, solver=make_solver("auto", tol=1e-6, max_iter=50),
        pairs=[Pair(*part, *count) for part, count in zip(parts, counts, strict=True)],
        total_weight=float(objective.n_rows),
    )  # fmt: skip


def made(model):
    rng = np.random.default_rng(7)
    if model == "chain":
        data = test_chain.made(rng, valued=True)
        chain = Chain(data, layout_of(data, 1, all_pairs=True))
        return with_folds(chain, halves(chain.n_weights))
    if model == "folding":
        rules = Rules(least_hairpin=3, longest_loop=30)
        known = {"GGGAAAUCCC": "(((....)))", "GCAAAAAGCA": "((.....))."}
        examples = [example(encoded(text), partners_of(pairs), rules) for text, pairs in known.items()] * 2
        return with_folds(Folding(examples, rules), halves(folding_weights().count))
    kind, _, form = model.partition(" ")
    groups = ["a", "a", "a", "b", "b", "b"]
    if kind == "noise":
        plain = problems.problem("least_squares", rng, groups)
        return with_folds(NoiseIntegrated(plain.objective), plain.groups)
    return problems.problem(kind, rng, groups, sparse=form == "sparse")


def halves(n_weights):
    return Groups((np.arange(n_weights) > n_weights // 2).astype(np.intp), ("first", "second"), np.full(2, np.nan))


def watched(plain):
    counts = []
    pairs = [
        replace(pair, train=Watched(pair.train, counts), holdout=Watched(pair.holdout, counts)) for pair in plain.pairs
    ]
    return replace(plain, objective=Watched(plain.objective, counts), pairs=pairs), counts


@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("model", MODELS)
def test_a_wrapped_model_gives_the_same_bits(model, tuner):
    plain = made(model)
    wrapped, counts = watched(plain)
    try:
        expected = TUNERS[tuner].tune(plain)
    except MissingCapability as error:
        with pytest.raises(MissingCapability, match=str(error).split(",")[0]):
            TUNERS[tuner].tune(wrapped)
        return
    found = TUNERS[tuner].tune(wrapped)
    assert counts
    assert found.strengths == expected.strengths
    assert np.array_equal(found.weights, expected.weights)
    assert [step.criterion for step in found.trace] == [step.criterion for step in expected.trace]


def test_a_wrapper_can_do_what_the_objective_inside_can(rng):
    one = problems.problem("logistic", rng).objective
    assert capabilities_of(Watched(one, [])) == {Objective, Rows, Factorable, Curved}
    assert capabilities_of(Watched(made("chain").objective, [])) == {Objective, Rows}
    assert not isinstance(Watched(made("folding").objective, []), Factorable)
    assert isinstance(Watched(one, []), Factorable)
