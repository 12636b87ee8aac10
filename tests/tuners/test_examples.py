"""The examples in the docstrings of the tuners run."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["mm", "direct", "grid", "gradient"])
def test_examples_of_the_documentation_run(name):
    results = doctest.testmod(importlib.import_module(f"tikhon.tuners.{name}"))
    assert results.attempted > 5
    assert results.failed == 0
