"""The estimator of RNA folding.

- ``folder``: RNAFolder, its fit and its files; ``predictions``: what it predicts when it is fitted.
- ``rna_input``: what it asks of sequences and structures; ``groups``: which weights share a strength.
"""
