"""The inverse of a penalised Gram matrix by rows and by columns, against each other and against numpy."""

import numpy as np
import pytest
import scipy.sparse as sp

from tikhon.models.linear import inverse as inverse_module
from tikhon.models.linear.design import Design
from tikhon.models.linear.inverse import ByColumns, ByRows, fewer_rows, inverse_of

STORAGE = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csr": sp.csr_array}
SHAPES = {"tall": (40, 6), "wide": (12, 30), "square": (9, 9)}


class Made:
    """A design with curvatures, some of which are 0, and strengths, some of which may be."""

    def __init__(self, rng, shape, storage="C", fit_intercept=True, unpenalised=0, damped=False):
        n, p = SHAPES[shape]
        X = rng.normal(size=(n, p))
        X[rng.random(X.shape) < 0.3] = 0.0
        self.design = Design(STORAGE[storage](X), fit_intercept)
        self.curvature = rng.uniform(0.1, 2.0, n) * (np.arange(n) % 4 > 0)
        self.strength = np.exp(rng.normal(size=self.design.width))
        self.strength[:unpenalised] = 0.0
        if fit_intercept:
            self.strength[-1] = 0.3 if damped else 0.0
        self.rows = np.column_stack([X, np.ones(n)]) if fit_intercept else X
        self.matrix = self.rows.T @ (self.curvature[:, None] * self.rows) + np.diag(self.strength)

    def by(self, kind):
        return kind(self.design, self.curvature, self.strength)


@pytest.fixture(params=STORAGE)
def storage(request):
    return request.param


def check(made, found, rng):
    """All that an inverse tells, against numpy.linalg.inv; responses only where the strengths are not 0."""
    inverse, n = np.linalg.inv(made.matrix), len(made.rows)
    close = {"rtol": 1e-7, "atol": 1e-9}
    for right in (rng.normal(size=len(inverse)), np.asfortranarray(rng.normal(size=(len(inverse), 3)))):
        before = right.copy()
        np.testing.assert_allclose(found.solve(right), inverse @ right, **close)
        np.testing.assert_array_equal(right, before)
    np.testing.assert_allclose(found.diagonal, np.diag(inverse), **close)
    by_weight = rng.normal(size=len(inverse))
    np.testing.assert_allclose(found.squares_times(by_weight), np.square(inverse) @ by_weight, **close)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(made.matrix)[1], rel=1e-9)
    between = made.rows @ inverse @ made.rows.T
    np.testing.assert_allclose(found.leverages, np.diag(between), **close)
    weights = rng.uniform(0.0, 1.0, n) * (np.arange(n) % 5 > 0)
    np.testing.assert_allclose(found.squares(weights), between**2 @ weights, **close)
    penalised = made.strength > 0.0
    for n_targets in (1, 3):
        each = rng.normal(size=(n, n_targets)) if n_targets > 1 else weights[:, None]
        expected = np.square(inverse @ made.rows.T) @ each
        np.testing.assert_allclose(found.squared_responses(each)[penalised], expected[penalised], **close)
    responses = np.vstack([block for _, block in found.responses()])
    np.testing.assert_allclose(responses[:, penalised], (made.rows @ inverse)[:, penalised], **close)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("unpenalised", [0, 2])
@pytest.mark.parametrize("kind", [ByColumns, ByRows])
@pytest.mark.parametrize("seed", [0, 1])
def test_both_forms_are_numpys(shape, storage, fit_intercept, unpenalised, kind, rng):
    made = Made(rng, shape, storage, fit_intercept, unpenalised)
    check(made, made.by(kind), rng)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_damped_intercept_is_a_column_like_any_other(shape, storage, rng):
    made = Made(rng, shape, storage, damped=True)
    found = inverse_of(made.design, made.curvature, made.strength)
    assert isinstance(found, ByRows if shape == "wide" else ByColumns)
    check(made, found, rng)


@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("seed", [0])
def test_the_smaller_of_rows_and_weights_is_chosen(shape, rng):
    made = Made(rng, shape)
    found = inverse_of(made.design, made.curvature, made.strength)
    assert fewer_rows(made.design) == (shape == "wide")
    assert isinstance(found, ByRows if shape == "wide" else ByColumns)
    check(made, found, rng)


def test_a_gram_matrix_that_is_given_is_used_and_not_changed(rng):
    made = Made(rng, "tall")
    gram = made.design.gram(made.curvature)
    before = gram.copy()
    found = inverse_of(made.design, made.curvature, made.strength, gram)
    check(made, found, rng)
    np.testing.assert_array_equal(gram, before)


def test_responses_too_large_to_keep_are_made_block_by_block(storage, rng, monkeypatch):
    made = Made(rng, "tall", storage)
    monkeypatch.setattr(inverse_module, "KEPT_BYTES", 0)
    monkeypatch.setattr("tikhon.models.linear.design.BLOCK_BYTES", 8 * 6 * 7)  # seven rows at a time
    found = made.by(ByColumns)
    assert len(list(found.responses())) == 6
    check(made, found, rng)


@pytest.mark.parametrize("kind", [ByColumns, ByRows])
def test_no_curvature_at_all_leaves_the_penalty(kind, rng):
    made = Made(rng, "wide", fit_intercept=False)
    made.curvature[:] = 0.0
    found = made.by(kind)
    np.testing.assert_allclose(found.diagonal, 1 / made.strength, rtol=1e-12)
    np.testing.assert_allclose(found.leverages, np.square(made.rows) @ (1 / made.strength), rtol=1e-10)
    assert found.log_determinant == pytest.approx(np.log(made.strength).sum(), rel=1e-10)


@pytest.mark.parametrize("kind", [ByColumns, ByRows])
@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_strengths_of_any_size(kind, size, rng):
    made = Made(rng, "wide")
    made.strength *= size
    made.matrix = made.rows.T @ (made.curvature[:, None] * made.rows) + np.diag(made.strength)
    found, inverse = made.by(kind), np.linalg.inv(made.matrix)
    shares = made.curvature * np.diag(made.rows @ inverse @ made.rows.T)
    np.testing.assert_allclose(made.curvature * found.leverages, shares, atol=1e-7)
    np.testing.assert_allclose(made.strength * found.diagonal, made.strength * np.diag(inverse), atol=1e-7)
