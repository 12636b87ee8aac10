r"""Files of arrays and a JSON header that detect every changed bit.

A file is a safetensors file: eight bytes of header length, a JSON header, the arrays. Its ``__metadata__`` has one
entry, ``"tikhon"``, a JSON text that starts with ``{"sha256":"<64 hexadecimal digits>"``. The digest is computed over
the whole file with those 64 characters replaced by zeros, and is compared before anything is parsed: a flipped bit in
the length, the header, the digest or the arrays is an error and never a wrong number. It is a checksum, not a
signature. Reading runs no code from the file.

Numbers in the header keep full precision; NaN and infinities are written as by Python's ``json``.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialise

from tikhon.data.files import replacing
from tikhon.errors import FileFormatError, InputError

Path: TypeAlias = str | os.PathLike[str]

MODEL_KIND, MODEL_VERSION = "model", 1  # of files that hold a fitted model

_ENTRY = "tikhon"
_ENTRIES = {"kind": str, "version": int, "complex": list, "header": dict}
_NO_DIGEST = b"0" * 64
_MARK = json.dumps('{"sha256":"')[1:-1].encode()  # as it appears in the file, inside a JSON string
_NO_ARRAYS = "no arrays"  # a placeholder: safetensors 0.4.3 writes a broken header if there are none
_ARRAY_NAME = re.compile(r"[\w.\-\[\] ]+")


def write_file(
    path: Path, *, kind: str, version: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a header (anything JSON can represent) and arrays of numbers, atomically.

    The file is written next to ``path``, flushed to disk and renamed: if anything fails, an old file is unchanged and
    nothing is left behind.
    """
    stored, complex_names = {}, []
    for name, array in arrays.items():
        stored[name] = _storable(name, np.asarray(array))
        if np.iscomplexobj(array):
            complex_names.append(name)
    description = {
        "sha256": _NO_DIGEST.decode(),
        "kind": kind,
        "version": version,
        "complex": complex_names,
        "header": dict(header),
    }
    text = json.dumps(description, separators=(",", ":"), default=_plain)
    blank = serialise(stored or {_NO_ARRAYS: np.zeros(0)}, metadata={_ENTRY: text})
    place = blank.index(_MARK) + len(_MARK)
    with replacing(os.fspath(path), zipped=False) as file:
        file.write(blank[:place])
        file.write(hashlib.sha256(blank).hexdigest().encode())
        file.write(blank[place + 64 :])


def read_file(path: Path, *, kind: str, max_version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays of a file that ``write_file`` wrote; ``FileFormatError`` if anything was changed."""
    try:
        with open(path, "rb") as file:
            if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):  # /dev/zero has no end
                raise InputError(f"{os.fspath(path)}: is a device, not a file")
            content = file.read()
    except FileNotFoundError:
        raise InputError(f"{os.fspath(path)}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{os.fspath(path)} cannot be read: {error.strerror or error}") from error
    _check_digest(content, path)
    description, arrays = _parse(content, path)
    if description["kind"] != kind:
        raise FileFormatError(f"{os.fspath(path)} is a {description['kind']} file; a {kind} file was expected")
    if description["version"] > max_version:
        raise FileFormatError(
            f"{os.fspath(path)} was written by a newer tikhon (format {description['version']}, this one reads up to "
            f"{max_version}): upgrade"
        )
    arrays.pop(_NO_ARRAYS, None)
    for name in description["complex"]:
        if not isinstance(name, str) or name not in arrays:
            raise FileFormatError(f"{os.fspath(path)}: complex names {name!r}; expected the name of an array")
        pairs = arrays[name]
        if pairs.dtype.kind != "f" or pairs.dtype.itemsize < 4 or pairs.shape[-1:] != (2,):
            raise FileFormatError(
                f"{os.fspath(path)}: {name} is of type {pairs.dtype} and shape {pairs.shape}; expected pairs of floats, since "
                "complex names it"
            )
        arrays[name] = pairs.view(np.result_type(pairs.dtype, 1j))[..., 0]
    header: dict[str, Any] = description["header"]
    return header, arrays


def _check_digest(content: bytes, path: Path) -> None:
    mark = content.find(_MARK)
    if mark < 0:
        raise FileFormatError(f"{os.fspath(path)} is not a tikhon file, or it was truncated or edited: write it again")
    place = mark + len(_MARK)
    digest = hashlib.sha256(memoryview(content)[:place])
    digest.update(_NO_DIGEST)
    digest.update(memoryview(content)[place + 64 :])
    if content[place : place + 64] != digest.hexdigest().encode():
        raise FileFormatError(
            f"{os.fspath(path)} does not match its checksum: it was truncated or edited after writing; write it again"
        )


def _parse(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Parse a file with the right digest; one that was assembled by hand can still be malformed."""
    try:
        length = int.from_bytes(content[:8], "little")
        description = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][_ENTRY])
        for name, form in _ENTRIES.items():
            if type(description[name]) is not form:
                raise TypeError(f"{name} is not a {form.__name__}")
        # A copy, because the parsed arrays may be views of read-only memory.
        arrays = {name: np.array(array) for name, array in parse_arrays(content).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise FileFormatError(f"{os.fspath(path)} does not have the layout of a tikhon file: {error}") from error
    return description, arrays


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array as safetensors requires it: C order, native bytes, complex numbers as pairs."""
    if not _ARRAY_NAME.fullmatch(name) or name == _NO_ARRAYS:
        raise InputError(f"array name {name!r}: use letters, digits, '_', '.', '-', spaces and brackets")
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):
        raise InputError(
            f"array {name!r} has the type {array.dtype}: only booleans and numbers up to 64 bits are stored"
        )
    array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    if array.dtype.kind == "c":
        array = array[..., np.newaxis].view(array.real.dtype)
    return array


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays as JSON types."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise InputError(f"{value!r} ({type(value).__name__}) cannot be stored in a file's JSON header")
