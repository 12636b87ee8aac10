"""Compiled kernels of chains: ``forward_backward`` (``logs`` where it would underflow), ``passes`` over some sequences,
``decode``."""
