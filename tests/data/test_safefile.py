import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from tikhon.data import safefile
from tikhon.data.safefile import read_file, write_file
from tikhon.errors import FileFormatError, InputError

HEADER = {
    "text": 'quotes " and {"sha256":"0000 and ü',
    "numbers": [0.1 + 0.2, -0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), 2**70],
    "nested": {"none": None, "flag": True},
}


def small(path, version=1, kind="model"):
    write_file(
        path, kind=kind, version=version, header={"a": 1.5}, arrays={"w": np.array([1.0, -2.0]), "n": np.arange(3)}
    )
    return path


def test_header_and_numbers_come_back_bit_for_bit(tmp_path):
    write_file(tmp_path / "f", kind="model", version=1, header=HEADER | {"nan": float("nan")}, arrays={})
    header, arrays = read_file(tmp_path / "f", kind="model", max_version=1)
    assert np.isnan(header.pop("nan"))
    assert repr(header) == repr(HEADER)  # repr tells -0.0 from 0.0
    assert arrays == {}


@pytest.mark.parametrize(
    "array",
    [
        np.array(2.5),
        np.zeros((0, 3)),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(12)[::-2],
        np.array([True, False]),
        np.arange(4, dtype=">i4"),
        np.arange(4, dtype="uint8"),
        np.array([np.nan, -0.0, np.inf], dtype="float32"),
        np.array([1.5], dtype="float16"),
        np.array([1 + 2j, 3j]),
        np.array(1j, dtype="complex64"),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_arrays_of_any_numeric_type_order_and_shape(tmp_path, array):
    write_file(tmp_path / "f", kind="model", version=1, header={}, arrays={"a": array})
    back = read_file(tmp_path / "f", kind="model", max_version=1)[1]["a"]
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.shape == array.shape
    assert back.tobytes() == np.asarray(array, dtype=back.dtype).tobytes()
    assert back.flags.writeable


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.array([1], dtype="M8[s]"), np.zeros(1, np.longdouble)]
)
def test_arrays_that_are_not_numbers_are_refused_and_nothing_is_written(tmp_path, array):
    with pytest.raises(InputError, match="only booleans and numbers"):
        write_file(tmp_path / "f", kind="model", version=1, header={}, arrays={"a": array})
    assert list(tmp_path.iterdir()) == []


def test_odd_headers_and_names_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be stored"):
        write_file(tmp_path / "f", kind="model", version=1, header={"a": object()}, arrays={})
    with pytest.raises(InputError, match="array name"):
        write_file(tmp_path / "f", kind="model", version=1, header={}, arrays={'{"sha256":"': np.zeros(1)})


def test_any_reader_of_safetensors_can_read_it(tmp_path):
    content = small(tmp_path / "f").read_bytes()
    assert load_safetensors(content)["w"].tolist() == [1.0, -2.0]


def test_the_same_content_gives_the_same_bytes(tmp_path):
    assert small(tmp_path / "f").read_bytes() == small(tmp_path / "g").read_bytes()


def test_every_single_flipped_bit_is_an_error(tmp_path):
    path = small(tmp_path / "f")
    content = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for position, byte in enumerate(content):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([byte ^ (1 << bit)]), position)
                with pytest.raises(FileFormatError, match="truncated or edited"):
                    read_file(path, kind="model", max_version=1)
            os.pwrite(file.fileno(), bytes([byte]), position)
    assert path.read_bytes() == content


def test_every_cut_and_appended_bytes_are_errors(tmp_path):
    path = small(tmp_path / "f")
    content = path.read_bytes()
    for changed in [content[:length] for length in range(len(content))] + [content + b"\0", content * 2]:
        path.write_bytes(changed)
        with pytest.raises(FileFormatError, match="truncated or edited"):
            read_file(path, kind="model", max_version=1)


def test_nothing_is_parsed_before_the_digest_is_compared(tmp_path, monkeypatch):
    path = small(tmp_path / "f")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(safefile, "_parse", lambda *_: pytest.fail("parsed"))
    with pytest.raises(FileFormatError, match="checksum"):
        read_file(path, kind="model", max_version=1)


def test_newer_versions_other_kinds_missing_files_and_folders(tmp_path):
    path = small(tmp_path / "f", version=3)
    with pytest.raises(FileFormatError, match=r"newer tikhon \(format 3, this one reads up to 1\): upgrade"):
        read_file(path, kind="model", max_version=1)
    with pytest.raises(FileFormatError, match="is a model file; a checkpoint file was expected"):
        read_file(path, kind="checkpoint", max_version=3)
    with pytest.raises(InputError, match="no such file"):
        read_file(tmp_path / "missing", kind="model", max_version=1)
    with pytest.raises(InputError, match="cannot be read"):
        read_file(tmp_path, kind="model", max_version=1)


def test_another_safetensors_file_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(save_safetensors({"a": np.zeros(2)}))
    with pytest.raises(FileFormatError, match="not a tikhon file"):
        read_file(tmp_path / "f", kind="model", max_version=1)


def test_a_file_with_a_right_digest_but_a_wrong_form_is_refused(tmp_path):
    whole = {"sha256": "0" * 64, "kind": "model", "version": 1, "complex": [], "header": {}}
    changes = [{"version": "x"}, {"version": True}, {"complex": "a"}, {"header": []}, {"kind": 3}]
    texts = [json.dumps(whole | change, separators=(",", ":")) for change in changes]
    texts += [json.dumps({"sha256": "0" * 64, "kind": "model"}, separators=(",", ":"))]
    texts += [json.dumps(whole, separators=(",", ":")).replace("{}", "[" * 100_000)]
    for text in texts:
        blank = save_safetensors({"a": np.zeros(2)}, metadata={"tikhon": text})
        (tmp_path / "f").write_bytes(blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode()))
        with pytest.raises(FileFormatError, match="not have the layout"):
            read_file(tmp_path / "f", kind="model", max_version=1)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, step):
    path = small(tmp_path / "f")
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(InputError, match="no space left"):
        write_file(path, kind="model", version=1, header={}, arrays={"a": np.zeros(1000)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = small(tmp_path / "f")
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_file(path, kind="model", version=1, header={}, arrays={})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_write_errors_of_the_system_are_one_sentence(tmp_path):
    with pytest.raises(InputError, match="there is no directory"):
        write_file(tmp_path / "no such folder" / "f", kind="model", version=1, header={}, arrays={})


def test_a_symbolic_link_stays_one(tmp_path):
    small(tmp_path / "f")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    write_file(tmp_path / "link", kind="model", version=1, header={"new": 1}, arrays={})
    assert (tmp_path / "link").is_symlink()
    assert read_file(tmp_path / "f", kind="model", max_version=1)[0] == {"new": 1}


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device")
def test_a_device_without_end_is_refused():
    with pytest.raises(InputError, match=r"/dev/zero: is a device, not a file"):
        read_file("/dev/zero", kind="thing", max_version=1)
