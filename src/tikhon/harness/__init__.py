"""What experiments and benches share; neither imports the other.

- ``runner``: ``Experiment``, which plans rows, measures those that are missing and writes what they mean; ``store``: the
  file of finished rows, which a run that was killed goes on from; ``output``: JSON, Markdown, versions and date.
- ``timing``: the clock, and the median time of short work; ``fitting``: folds, the paper's methods, scores of classifiers.
- ``libsvm_sets``: sizes, files and splits of the LIBSVM sets; ``crfsuite``: CRFsuite, the rival on chains.
"""
