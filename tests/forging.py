"""Files with a right checksum and wrong content: the forger of test_forged_files.py."""

import copy
from typing import Any

import numpy as np

ODD_VALUES = [
    None, True, False, 0, -1, 1, 2, -5, 3, 10**6, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e300, -1e300, 1e-300,
    float("nan"), float("inf"), -float("inf"), "", "a", "no such", "<U1", "<U99999999", "<f8", "object", "gradient",
    [], [1], ["a"], [None], [[1, 2]], [["a", 1]], {}, {"a": 1}, {"mapping": []}, {"mapping": [[1]]}, {"name": "grid"},
    {"name": "mm", "options": {"alpha": "x"}}, {"dtype": "<U3"}, {"values": [1, 1]},
]  # fmt: skip
ODD_NUMBERS = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e160, 1e149, 1e99, -1e99, 700.0, -1.0, 0.0, 1e-320]
ODD_INDICES = [-1, -2, 2**30, 2**31 - 1, -(2**31), 10**6, 0, 1]
TYPES = [np.float32, np.int64, np.int32, np.uint8, np.bool_, np.float16, np.complex128, np.uint64]


def forged(rng: np.random.Generator, header: dict[str, Any], arrays: dict[str, Any]) -> tuple[str, dict, dict]:
    """One change at random: the field it was made in, and the header and arrays with it."""
    header, arrays = copy.deepcopy(header), {name: array.copy() for name, array in arrays.items()}
    if arrays and rng.random() < 0.5:
        return _forge_array(rng, arrays), header, arrays
    return _forge_header(rng, header), header, arrays


def _pick(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _forge_header(rng: np.random.Generator, header: dict[str, Any]) -> str:
    """Walk down to some entry, and change, drop, rename or double it."""
    place: Any = header
    path: list[str] = []
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = _pick(rng, keys)
        path.append(str(key))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.25:
            break
        place = inner
    way = int(rng.integers(6))
    if way == 0:
        del place[key]
    elif way == 1 and isinstance(place, dict):
        place[f"{key}x"] = place.pop(key)
    elif way == 2 and isinstance(place, list):
        place.append(place[key])
    elif way == 3 and isinstance(place[key], int | float) and not isinstance(place[key], bool):
        place[key] = place[key] + _pick(rng, [1, -1, 7, 1000])
    else:
        place[key] = copy.deepcopy(_pick(rng, ODD_VALUES))
    return ".".join(path)


def _forge_array(rng: np.random.Generator, arrays: dict[str, Any]) -> str:
    name = _pick(rng, list(arrays))
    array = arrays[name]
    way = int(rng.integers(11))
    if way == 0:
        del arrays[name]
    elif way == 1:
        arrays[f"{name}x"] = arrays.pop(name)
    elif way == 2:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(_pick(rng, TYPES))
    elif way == 3:
        arrays[name] = array.reshape(-1, 1) if rng.random() < 0.5 else array.reshape(1, *array.shape)
    elif way == 4 and array.ndim == 2:
        arrays[name] = array.T.copy()
    elif way == 5 and array.ndim and len(array):
        arrays[name] = array[:-1]
    elif way == 6 and array.ndim:
        arrays[name] = np.concatenate([array, array[-1:]])
    elif way == 7:
        other = _pick(rng, list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif way == 8:
        arrays["more"] = array
        return "more"
    elif array.size:
        odd = ODD_NUMBERS if array.dtype.kind == "f" else ODD_INDICES
        value = _pick(rng, odd)
        if array.dtype.kind in "iu":
            value = np.array(value).astype(array.dtype)
        array.ravel()[int(rng.integers(array.size))] = value
    return name
