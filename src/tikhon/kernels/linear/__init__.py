"""Kernels of linear models: ``pointwise`` losses of scores, ``sparse`` products, ``row_cholesky`` of many small matrices."""
