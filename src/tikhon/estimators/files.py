"""Reading model files."""

import os
from importlib import import_module
from typing import TYPE_CHECKING

from tikhon.data.safefile import MODEL_KIND, MODEL_VERSION, read_file
from tikhon.errors import FileFormatError
from tikhon.estimators import ESTIMATORS
from tikhon.estimators.state import restore

if TYPE_CHECKING:
    from tikhon.estimators.chain.crf import ChainCRF
    from tikhon.estimators.chain.hidden_crf import HiddenUnitCRF
    from tikhon.estimators.folding.folder import RNAFolder
    from tikhon.estimators.linear.logistic import LogisticRegression
    from tikhon.estimators.linear.ridge import Ridge


def load(path: str | os.PathLike[str]) -> "LogisticRegression | Ridge | ChainCRF | HiddenUnitCRF | RNAFolder":
    """Load a fitted model written by ``model.save(path)``; its predictions are bit-identical.

    Loading runs no code from the file. A file with any bit changed, a file from a newer version of tikhon and a file of
    another kind raise a ``FileFormatError``.

    Parameters
    ----------
    path : str or path-like
        A model file.

    Returns
    -------
    LogisticRegression, Ridge, ChainCRF, HiddenUnitCRF or RNAFolder
    """
    header, arrays = read_file(path, kind=MODEL_KIND, max_version=MODEL_VERSION)
    name = str(header.get("estimator"))
    if name not in ESTIMATORS:
        raise FileFormatError(
            f"{os.fspath(path)}: estimator is {name!r}; this version of tikhon supports {', '.join(ESTIMATORS)}"
        )
    model_class = getattr(import_module(ESTIMATORS[name]), name)
    model: LogisticRegression | Ridge | ChainCRF | HiddenUnitCRF | RNAFolder = restore(
        model_class, header, arrays, path
    )
    return model
