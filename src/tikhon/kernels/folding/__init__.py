"""Compiled kernels of folding.

``inside`` and ``outside`` passes, with derivatives in ``rates``; ``best``, ``nbest`` and ``trace`` extract structures from
their tables; ``pairs`` is posterior decoding; ``uses`` counts the features of a known structure.
"""
