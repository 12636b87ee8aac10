"""The estimator of chain CRFs.

- ``crf``: the estimator; ``groups``: which weights share a strength; ``rules``: which labels may follow which;
  ``state``: what its files hold; ``weights``: weights of sequences, weights carried over from an earlier fit.
- ``sequences``, ``token_features``: sequences, labels and features of tokens in all forms that users have them in.
"""
