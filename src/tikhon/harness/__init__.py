"""Shared parts of experiments and benchmarks; neither imports the other.

- ``runner``: ``Experiment``, which plans rows, measures those that are missing and writes the results; ``store``: the
  file of finished rows, from which a killed run resumes; ``output``: JSON, Markdown, versions and date.
- ``timing``: wall-clock and CPU time, medians for short work; ``fitting``: folds, the paper's methods, classifier scores.
- ``libsvm_sets``: sizes, files and splits of the LIBSVM sets; ``hucrf_tasks``: the data of hidden-unit CRFs;
  ``crfsuite``: CRFsuite, the rival on chains.
- ``search_tasks``: data sets and models of multi-stage searches; ``search_methods``: the searches that are compared.
"""
