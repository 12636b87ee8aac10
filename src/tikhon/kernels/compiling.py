"""How kernels are compiled: once, into a cache on disk, and without the interpreter's lock.

Sums may be reordered, which vectorises them; infinities and NaN keep their meaning.

What kernels call is always inlined. A function of its own may be there twice, optimised alone and as part of its caller, with
sums in another order; which one is called depends on whether this process compiled it or found it in the cache. Inlined, there
is one, and every process computes the same bits.
"""

from functools import partial

import numba

_options = partial(numba.njit, cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")

compiled = _options()  # what Python calls
inlined = _options(inline="always")  # before anything is optimised: a tenth faster where loops over rows are long
inlined_late = _options(forceinline=True)  # as machine instructions: large kernels compile in half the time
