"""How kernels are compiled: once, into a cache on disk, and without the interpreter's lock.

Sums may be reordered, for vectorisation, unless rounding is part of the method (``in_order``); infinities and NaN keep their
meaning.

Functions called by kernels are always inlined. Otherwise a function may exist twice, optimised alone and as part of its
caller, with sums in another order; which one is called depends on whether this process compiled it or found it in the cache.
Inlined, there is only one, and every process computes the same bits.
"""

from functools import partial

import numba

_options = partial(numba.njit, cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")

compiled = _options()  # called from Python
inlined = _options(inline="always")  # before optimisation: a tenth faster for loops over long rows
inlined_late = _options(forceinline=True)  # as machine code: large kernels compile in half the time; also from Python
inlined_in_order = _options(fastmath={"contract", "nsz"}, forceinline=True)
