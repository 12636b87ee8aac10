"""A quick form of ``make fuzz``: mutated files of every kind, read in this process and by commands."""

import warnings

import pytest

from tests.fuzzing import faults_of_commands, faults_of_reader, kinds

INPUTS, COMMANDS = 120, 22


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def all_kinds(folder):
    return kinds(folder)


NAMES = [
    "csv", "svmlight", "conll", "fasta", "lines", "bpseq", "ct", "constraints", "template", "groups", "parameters", "model",
    "tagger model", "folder model", "checkpoint",
]  # fmt: skip


def test_every_kind_is_listed(all_kinds):
    assert list(all_kinds) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_readers_refuse_or_read(all_kinds, folder, name):
    kind = all_kinds[name]
    path = folder / f"valid{kind.suffix}"
    path.write_bytes(kind.valid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind.read(path)
    assert not list(faults_of_reader(kind, 1, range(INPUTS), folder))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_commands_end_with_0_or_2(all_kinds, folder, part):
    half = COMMANDS // 2
    assert not list(faults_of_commands(all_kinds, 1, range(part * half, (part + 1) * half), folder))
