"""scikit-learn faces: check, encode, tune, set attributes; no numerics.

Nothing is imported here: a ridge regression has no use for the compiled kernels of chains and molecules, which take as
long to import as all the rest.
"""
