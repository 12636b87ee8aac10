"""Estimators of label sequences: chain CRFs, linear and with hidden units.

- ``sequence_estimator``: the common part of models of label sequences: input, predictions, files; ``crf``: the chain CRF,
  ``hidden_crf``: the one with hidden units.
- ``groups``: which weights share a strength; ``rules``: which labels may follow which; ``state``: contents of files;
  ``weights``: sequence weights, weights carried over from an earlier fit.
- ``sequences``, ``token_features``: sequences, labels and token features in all accepted forms.
"""
