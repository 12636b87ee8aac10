"""Numerical inner loops: arrays and scalars in, arrays out; no classes, no validation, no logging."""
