"""The estimator of RNA folding: ``folder``, and in ``rna_input`` what it asks of sequences and structures."""
