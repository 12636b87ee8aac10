"""Sums over rows of C_i (x) x_i x_i' and quadratic forms, in both storages, against einsum."""

import numpy as np
import pytest
import scipy.sparse as sp

from tikhon.models.linear import class_blocks as module
from tikhon.models.linear.class_blocks import ByProducts, ByRowBlocks, Pairs, class_blocks
from tikhon.models.linear.design import Design
from tikhon.models.linear.sparse_pairs import SparsePairs, sparse_pairs

KINDS = (ByProducts, ByRowBlocks)
STORAGE = {"dense": np.asarray, "csr": sp.csr_array}


def made(rng, storage, fit_intercept, n=25, p=4):
    X = rng.normal(size=(n, p))
    X[rng.random(X.shape) < 0.3] = 0.0
    rows = np.column_stack([X, np.ones(n)]) if fit_intercept else X
    return Design(STORAGE[storage](X), fit_intercept), rows


def symmetric(rng, m, n):
    found = rng.normal(size=(m, m, n))
    return found + found.transpose(1, 0, 2)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_pairs_are_the_upper_triangle_and_back(m):
    pairs = Pairs(m)
    assert len(pairs) == m * (m + 1) // 2
    for k in range(m):
        for other in range(m):
            position = pairs.position[k, other]
            assert sorted((k, other)) == [pairs.first[position], pairs.second[position]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("m", [1, 2, 4])
def test_gram_and_quadratics_are_those_written_out(kind, storage, fit_intercept, m, rng, monkeypatch):
    monkeypatch.setattr("tikhon.models.linear.design.BLOCK_BYTES", 8 * 10 * 5)  # several blocks of rows
    design, rows = made(rng, storage, fit_intercept)
    blocks, (n, q) = kind(design, m), rows.shape
    C = symmetric(rng, m, n)
    pairs = C[blocks.classes.first, blocks.classes.second]
    np.testing.assert_array_equal(blocks.square(pairs), C)
    gram = blocks.gram(pairs)
    expected = np.einsum("kln,nj,nh->kjlh", C, rows, rows).reshape(m * q, m * q)
    np.testing.assert_allclose(gram, expected, rtol=1e-10, atol=1e-10)
    assert gram.flags.f_contiguous
    matrix = symmetric(rng, m * q, 1)[:, :, 0]
    found = blocks.square(blocks.quadratics(matrix))
    expected = np.einsum("nj,kjlh,nh->kln", rows, matrix.reshape(m, q, m, q), rows)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_few_columns_keep_their_products(rng, monkeypatch):
    design, _ = made(rng, "dense", fit_intercept=True)
    assert isinstance(class_blocks(design, 2), ByProducts)
    monkeypatch.setattr(module, "PRODUCT_BYTES", 0)
    assert isinstance(class_blocks(design, 2), ByRowBlocks)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_products_of_sparse_rows(fit_intercept, rng):
    design, rows = made(rng, "csr", fit_intercept)
    pairs = sparse_pairs(design.X, fit_intercept)
    assert isinstance(pairs, SparsePairs)
    c = rng.uniform(0.0, 2.0, len(rows))
    np.testing.assert_allclose(pairs.gram(c), rows.T @ (c[:, None] * rows), rtol=1e-10, atol=1e-12)
    matrix = symmetric(rng, rows.shape[1], 1)[:, :, 0]
    expected = np.einsum("nj,jh,nh->n", rows, matrix, rows)
    np.testing.assert_allclose(pairs.quadratics(matrix), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(design.gram(c), pairs.gram(c), rtol=1e-12)
    np.testing.assert_allclose(design.quadratics(matrix), expected, rtol=1e-10, atol=1e-10)


def test_too_many_products_of_sparse_rows_are_not_kept(rng, monkeypatch):
    design, rows = made(rng, "csr", fit_intercept=True)
    monkeypatch.setattr("tikhon.models.linear.sparse_pairs.MOST_PRODUCTS", 10)
    assert sparse_pairs(design.X, True) is None
    c = rng.uniform(0.0, 2.0, len(rows))
    np.testing.assert_allclose(design.gram(c), rows.T @ (c[:, None] * rows), rtol=1e-10, atol=1e-12)
    matrix = symmetric(rng, rows.shape[1], 1)[:, :, 0]
    expected = np.einsum("nj,jh,nh->n", rows, matrix, rows)
    np.testing.assert_allclose(design.quadratics(matrix), expected, rtol=1e-10, atol=1e-10)


def test_empty_rows_have_no_products():
    X = sp.csr_array(np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [0.0, 3.0]]))
    pairs = SparsePairs(X)
    np.testing.assert_allclose(pairs.gram(np.array([5.0, 1.0, 7.0, 2.0])), [[1.0, 2.0], [2.0, 22.0]])
    np.testing.assert_allclose(pairs.quadratics(np.array([[1.0, 2.0], [2.0, 3.0]])), [0.0, 21.0, 0.0, 27.0])
