"""Which form of least squares suits a view of so many rows: through its rows, its Gram matrix or its kernel.

Work is counted in multiplications of dense matrix products. All choices depend on sizes only, never on what happens to
be computed already, so that the same call gives the same answer whenever it is made.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tikhon.models.linear.design import MOST_SIDE, Design, factor_products

MOST_PRODUCTS = 200.0  # that forming a Gram matrix may cost for the sake of later products
GRAM_USES = 10  # factors that are made of one Gram matrix, as a rule
KERNEL_USES = 5  # views that share a kernel, or steps that share its parts
FACTOR_USES = 2  # a factor is kept: a fit and the linear solve of its hypergradient use the same one
CACHE_BYTES = 2**24  # products with a larger matrix wait for memory
STREAMED = 3.0  # and are so much slower


@dataclass(frozen=True, eq=False)
class Sizes:
    """A view that uses ``n_used`` rows of a design, for some targets."""

    design: Design
    n_used: int
    n_targets: int

    @cached_property
    def gram_serves(self) -> bool:
        """Are products with the Gram matrix at most half the price of two passes over the rows, and is it cheap to form?"""
        width = self.design.width
        return (
            width <= MOST_SIDE
            and width**2 <= self._n_stored
            and factor_products(self._gram_work, self._product_work) <= MOST_PRODUCTS
        )

    @cached_property
    def in_rows(self) -> bool:
        """Is a factor of the size of the rows cheaper than one of the size of the weights?"""
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
        """Dense rows only: the kernel of all, a factor of those in use."""
        if self.design.is_sparse or self.design.n_rows > MOST_SIDE or self.n_used >= self.design.width:
            return np.inf
        return self.n_used**3 / 3 + self.design.n_rows**2 * self.design.n_columns / 2 / KERNEL_USES
