"""Compiled kernels of folding.

``inside`` and ``outside`` passes, and in ``rates`` both along a direction; ``best``, ``nbest`` and ``trace`` get structures
out of their tables; ``pairs`` is posterior decoding; ``uses`` counts the features of a known structure.
"""
