"""Estimators of label sequences: chain CRFs.

- ``sequence_estimator``: what every model of label sequences shares: input, predictions, files; ``crf``: the chain CRF.
- ``groups``: which weights share a strength; ``rules``: which labels may follow which; ``state``: what files hold;
  ``weights``: weights of sequences, weights carried over from an earlier fit.
- ``sequences``, ``token_features``: sequences, labels and features of tokens in all forms that users have them in.
"""
