"""The form of least squares that suits a view's number of rows: through its rows, its Gram matrix or its kernel.

Work is counted in multiplications of dense matrix products. All choices depend on sizes only, never on what happens to be
cached, so that the same call always gives the same result.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tikhon.models.linear.design import MOST_SIDE, Design, factor_products

MOST_PRODUCTS = 200.0  # limit on the cost of a Gram matrix for the sake of later products
GRAM_USES = 10  # factors typically made of one Gram matrix
KERNEL_USES = 5  # views that share a kernel, or steps that share its parts
FACTOR_USES = 2  # a factor is cached: a fit and the linear solve of its hypergradient share it
CACHE_BYTES = 2**24  # products with a larger matrix are limited by memory bandwidth
STREAMED = 3.0  # and slower by this factor


@dataclass(frozen=True, eq=False)
class Sizes:
    """A view that uses ``n_used`` rows of a design, for some targets."""

    design: Design
    n_used: int
    n_targets: int

    @cached_property
    def gram_serves(self) -> bool:
        """Whether products with the Gram matrix cost at most half of two passes over the rows, and it is cheap to compute."""
        width = self.design.width
        return (
            width <= MOST_SIDE
            and width**2 <= self._n_stored
            and factor_products(self._gram_work, self._product_work) <= MOST_PRODUCTS
        )

    @cached_property
    def in_rows(self) -> bool:
        """Whether a factor of the size of the rows is cheaper than one of the size of the weights."""
        return self._by_rows < self._by_columns

    @cached_property
    def factor_cost(self) -> float:
        """In Hessian products from the rows."""
        return factor_products(min(self._by_rows, self._by_columns), self._product_work) / FACTOR_USES

    @property
    def _share(self) -> float:
        return self.n_used / max(self.design.n_rows, 1)

    @property
    def _n_stored(self) -> float:
        return self.design.n_stored * self._share

    @property
    def _product_work(self) -> float:
        slower = STREAMED if 8 * self._n_stored > CACHE_BYTES else 1.0
        return slower * 2.0 * self._n_stored * self.n_targets

    @property
    def _gram_work(self) -> float:
        return self.design.gram_multiplications * self._share

    @property
    def _by_columns(self) -> float:
        width = self.design.width
        return width**3 / 3 + self._gram_work / GRAM_USES if width <= MOST_SIDE else np.inf

    @property
    def _by_rows(self) -> float:
        """Dense rows only: the kernel of all rows, a factor of those in use."""
        if self.design.is_sparse or self.design.n_rows > MOST_SIDE or self.n_used >= self.design.width:
            return np.inf
        return self.n_used**3 / 3 + self.design.n_rows**2 * self.design.n_columns / 2 / KERNEL_USES
