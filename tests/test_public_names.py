"""The names that users import, and that their modules say so."""

import importlib
import inspect
import re

import pytest

import tikhon

PUBLIC = {
    "Auto",
    "ChainCRF",
    "Direct",
    "Evidence",
    "Gradient",
    "Grid",
    "Groups",
    "HiddenUnitCRF",
    "InputError",
    "LeaveOneOut",
    "LogisticRegression",
    "MM",
    "MultiStageSearchCV",
    "RNAFolder",
    "Ridge",
    "TikhonError",
    "TuningWarning",
    "__version__",
    "load",
}
PACKAGES = ("tikhon", "tikhon.models", "tikhon.search", "tikhon.solvers", "tikhon.tuners", "tikhon.report")


def test_public_names_are_these() -> None:
    assert set(tikhon.__all__) == PUBLIC


@pytest.mark.parametrize("package", PACKAGES)
def test_all_lists_what_is_there_without_repeats(package: str) -> None:
    module = importlib.import_module(package)
    assert len(module.__all__) == len(set(module.__all__))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_public_names_are_documented(name: str) -> None:
    doc = inspect.getdoc(getattr(tikhon, name))
    assert doc is not None
    assert len(doc) > 20


def test_version_is_one_of_a_release() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", tikhon.__version__)


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(tikhon.InputError, ValueError)
    assert issubclass(tikhon.InputError, tikhon.TikhonError)
    assert issubclass(tikhon.TuningWarning, UserWarning)
