"""``make kernels`` runs kernels with checks of array bounds, and interpreted: here a fault that it must notice."""

import os

import numpy as np
import pytest
from numba import config

from tikhon.kernels.compiling import compiled


@compiled
def entry(values, place):
    return values[place]


def test_an_entry_beyond_the_end_is_noticed():
    checked = config.BOUNDSCHECK or config.DISABLE_JIT
    asked = os.environ.get("NUMBA_BOUNDSCHECK") == "1" or os.environ.get("NUMBA_DISABLE_JIT") == "1"
    assert bool(checked) == asked
    assert entry(np.arange(3.0), 2) == 2.0
    if not checked:
        pytest.skip("neither NUMBA_BOUNDSCHECK nor NUMBA_DISABLE_JIT is set")
    with pytest.raises(IndexError):
        entry(np.arange(3.0), 3)
