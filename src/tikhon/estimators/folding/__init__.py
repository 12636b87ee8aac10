"""The estimator of RNA folding.

- ``folder``: RNAFolder, its fit and its files; ``predictions``: the predictions of a fitted RNAFolder.
- ``rna_input``: validation of sequences and structures; ``groups``: which weights share a strength.
"""
