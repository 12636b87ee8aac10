"""Mutated files for every reader: each must give a result or a TikhonError, in bounded time and memory.

    python -m tests.fuzzing --inputs 5000 --commands 500

Everything follows from the seed: a case that fails is named by its kind and number, and ``--only KIND --first N`` repeats it.
"""

import argparse
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.forging import forged
from tikhon import ChainCRF, Gradient, LogisticRegression, RNAFolder, load
from tikhon.cli.molecules import Constraints
from tikhon.cli.options import column_groups
from tikhon.data.conll import read_conll
from tikhon.data.files import LIMITS
from tikhon.data.pair_tables import Longest
from tikhon.data.rna import stream_rna
from tikhon.data.rna_parameters import read_weights
from tikhon.data.safefile import read_file, write_file
from tikhon.data.svmlight import read_svmlight
from tikhon.data.tables import header, read_csv
from tikhon.data.token_windows import read_template
from tikhon.errors import TikhonError
from tikhon.models.folding.weights import folding_weights

SECONDS, MEMORY = 10.0, 2 * 2**30  # of a command
SLOW = 5.0  # seconds of a reader in this process

CSV = b"a,b,c,label\n1,2,3,x\n4,5.5,-6e3,y\n7,8,9,x\n0,1,1,y\n3,2,1,x\n2,2,2,y\n"
SVMLIGHT = b"1 1:0.5 3:2 7:1e-3\n-1 2:1 # a comment\n1 1:1 7:2\n-1 3:0.1\n1 2:3\n"
CONLL = b"The DT B\ncat NN I\nsat VB O\n\nA DT B\nrat NN I\n\n-DOCSTART- X O\n\nIt PR O\n"
FASTA = b">one first\nGGGAAAUCCC\n(((....)))\n>two\nGCGC\nAAGC\n>three\nACGU\n"
LINES = b"GGGAAAUCCC\n(((....)))\nACGUACGU\n........\n"
BPSEQ = b"#Name: x y\n1 G 4\n2 A 0\n3 A 0\n4 C 1\n\n#Name: z\n1 A 0\n2 C 0\n"
CT = b"4 name of it\n1 G 0 2 4 1\n2 A 1 3 0 2\n3 A 2 4 0 3\n4 C 3 0 1 4\n"
TEMPLATE = b"U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\n# comment\nU02:%x[1,1]\nB\n"
GROUPS = b'{"left": ["a", "b"], "right": ["c"]}'

PIECES = [
    b"", b"\n", b"\r", b"\r\n", b"\t", b" ", b",", b";", b'"', b'""', b"'", b"#", b">", b"-", b".", b"0", b"-1", b"1e999",
    b"nan", b"inf", b"1_0", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xc2\xa0", b"9" * 20, b"9" * 4301,
    b"0" * 5000 + b"1", b"(", b")", b"[", b"?", b"|", b"N", b"z", b":", b"1:", b":1", b"99999999:1", b"16777217:1", b"{", b"}",
    b"null", b"[[[[", b"\\", b"a" * 3000, b"\n" * 50, b",,,,,,", b"%x[0,99]", b"%x[-9999999999,0]", b"-DOCSTART-", b"1 A 0",
    b"5 x", b"1.5", "é".encode(),
]  # fmt: skip


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    """One to three changes at random; one in six is packed, one in six of these is damaged."""
    for _ in range(int(rng.integers(1, 4))):
        place, end = sorted(rng.integers(0, len(content) + 1, 2).tolist())
        piece = PIECES[int(rng.integers(len(PIECES)))]
        before, after = content[:place], content[place:]
        content = (
            before + piece + after,
            before + piece + content[end:],
            before + content[end:],
            before,
            content[:end] + after,
            before + bytes(rng.integers(0, 256, 3).tolist()) + after,
            content.replace(b"\n", piece, int(rng.integers(1, 4))),
            content * int(rng.integers(2, 6)),
        )[int(rng.integers(8))]
        content = content[:200_000]
    if rng.random() < 1 / 6:
        content = gzip.compress(content, mtime=0)
        if rng.random() < 1 / 6:
            content = content[: int(rng.integers(len(content)))] + PIECES[int(rng.integers(len(PIECES)))]
    return content


@dataclass(frozen=True)
class Kind:
    """A kind of file: a valid one, how it is read, and the arguments of commands that read it."""

    name: str
    suffix: str
    valid: bytes
    read: Callable[[Path], Any]
    commands: tuple[tuple[str, ...], ...]  # {} is the file, [name] a valid one of another kind
    mutate: Callable[[np.random.Generator, bytes], bytes] = mutated


def _forged_file(rng: np.random.Generator, content: bytes) -> bytes:
    """A model file or checkpoint with wrong content and a right checksum or, one in three, with wrong bytes."""
    if rng.random() < 1 / 3:
        return mutated(rng, content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        kind = "model" if b'kind\\":\\"model' in content[:2000] else "checkpoint"
        _, fields, arrays = forged(rng, *read_file(path, kind=kind, max_version=1))
        try:
            write_file(path, kind=kind, version=1, header=fields, arrays=arrays)
        except (TikhonError, ValueError, TypeError, OverflowError):  # what cannot be written need not be read
            return content
        return path.read_bytes()


def _use_model(path: Path) -> None:
    model = load(path)
    if isinstance(model, LogisticRegression):
        model.predict_proba(np.ones((2, model.n_features_in_)))


def kinds(folder: Path) -> dict[str, Kind]:
    """All kinds; models and checkpoints are made on the spot."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + rng.normal(size=30) > 0
    weights = folding_weights()
    tuner = Gradient(max_steps=2, checkpoint=str(folder / "checkpoint"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LogisticRegression(tuner=tuner, cv=3).fit(X, y)
        table = LogisticRegression(tuner="mm").fit(X, y)
        table.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
        table.save(folder / "table.model")
        tagger = ChainCRF(tuner=None).fit([[["w=a"], ["w=b"]]] * 3, [["B", "O"]] * 3)
        tagger.recipe_ = {"templates": [["w", [[0, 0]]]], "n_columns": 1, "spelling": False}
        tagger.save(folder / "tagger.model")
        RNAFolder(tuner=None, strengths=1.0).fit(["GGGAAAUCCC"], ["(((....)))"]).save(folder / "folder.model")
    models = {name: (folder / f"{name}.model").read_bytes() for name in ("table", "tagger", "folder")}
    parameters = "".join(f"{name} {0.1 * place}\n" for place, name in enumerate(weights.names)).encode()

    def read_rna(path: Path) -> None:
        list(stream_rna(path, longest=Longest(2000, "too long")))

    def resumed(path: Path) -> None:
        LogisticRegression(tuner=Gradient(max_steps=2, checkpoint=str(path)), cv=3).fit(X, y)

    fold = (("fold", "predict", "{}"), ("fold", "eval", "{}"))
    made = [
        Kind("csv", ".csv", CSV, lambda path: (header(path), read_csv(path, target="label")), (
            ("fit", "{}", "--target", "label", "-m", "[out]", "--tuner", "none"), ("predict", "[table]", "{}"),
        )),
        Kind("svmlight", ".svm", SVMLIGHT, read_svmlight, (
            ("fit", "{}", "-m", "[out]", "--tuner", "none"), ("predict", "[table]", "{}"),
        )),
        Kind("conll", ".tsv", CONLL, read_conll, (
            ("tag", "predict", "[tagger]", "{}"), ("tag", "eval", "[tagger]", "{}"),
        )),
        Kind("fasta", ".fa", FASTA, read_rna, fold),
        Kind("lines", ".txt", LINES, read_rna, fold),
        Kind("bpseq", ".bpseq", BPSEQ, read_rna, fold),
        Kind("ct", ".ct", CT, read_rna, fold),
        Kind("constraints", ".dbn", LINES, lambda path: Constraints(path, LIMITS), (
            ("fold", "predict", "[fasta]", "--constraints", "{}"),
        )),
        Kind("template", ".txt", TEMPLATE, lambda path: read_template(path, 2), (
            ("tag", "fit", "[conll]", "-m", "[out]", "--tuner", "none", "--template", "{}"),
        )),
        Kind("groups", ".json", GROUPS, lambda path: column_groups(str(path), ["a", "b", "c"]), (
            ("fit", "[csv]", "--target", "label", "-m", "[out]", "--tuner", "none", "--groups", "{}"),
        )),
        Kind("parameters", ".params", parameters, lambda path: read_weights(path, weights.names), (
            ("fold", "predict", "[fasta]", "-m", "{}"),
        )),
        Kind("model", ".safetensors", models["table"], _use_model, (
            ("inspect", "{}"), ("predict", "{}", "[csv]"),
        ), _forged_file),
        Kind("tagger model", ".safetensors", models["tagger"], load, (
            ("inspect", "{}"), ("tag", "predict", "{}", "[conll]"),
        ), _forged_file),
        Kind("folder model", ".safetensors", models["folder"], load, (
            ("inspect", "{}"), ("fold", "predict", "[fasta]", "-m", "{}"),
        ), _forged_file),
        Kind("checkpoint", ".steps", (folder / "checkpoint").read_bytes(), resumed, (
            ("fit", "[csv]", "--target", "label", "-m", "[out]", "--tuner", "gradient", "--checkpoint", "{}"),
        ), _forged_file),
    ]  # fmt: skip
    return {kind.name: kind for kind in made}


def case(kind: Kind, seed: int, number: int) -> bytes:
    rng = np.random.default_rng([seed, number, *kind.name.encode()])
    return kind.mutate(rng, kind.valid)


def faults_of_reader(kind: Kind, seed: int, numbers: range, folder: Path) -> Iterator[str]:
    """A line for each input that the reader neither reads nor refuses, or that takes too long."""
    path = folder / f"case{kind.suffix}"
    for number in numbers:
        path.write_bytes(case(kind, seed, number))
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                kind.read(path)
            except TikhonError:
                pass
            except Exception as error:
                yield f"{kind.name} {number}: {type(error).__name__}: {str(error)[:200]}"
        if (seconds := time.perf_counter() - begun) > SLOW:
            yield f"{kind.name} {number}: {seconds:.1f} s"


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def faults_of_commands(all_kinds: dict[str, Kind], seed: int, numbers: range, folder: Path) -> Iterator[str]:
    """A line for each command that ends with another code than 0 or 2, says "unexpected", or takes too much."""
    places = {f"[{name}]": folder / f"valid {name}{kind.suffix}" for name, kind in all_kinds.items()}
    places |= {f"[{name}]": folder / f"{name}.model" for name in ("table", "tagger", "folder")}
    places["[out]"] = folder / "out.model"
    for name, kind in all_kinds.items():
        places[f"[{name}]"].write_bytes(kind.valid)
    listed = [(kind, command) for kind in all_kinds.values() for command in kind.commands]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    for number in numbers:
        kind, command = listed[number % len(listed)]
        path = folder / f"case{kind.suffix}"
        path.write_bytes(case(kind, seed, number))
        arguments = [str(path) if word == "{}" else str(places.get(word, word)) for word in command]
        told = f"{number}: tikhon {' '.join(command)}"
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tikhon", *arguments], capture_output=True, timeout=SECONDS, preexec_fn=_limited,
                env=environment, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            yield f"{told}: more than {SECONDS} s"
            continue
        said = done.stderr.decode("utf-8", "replace")
        if done.returncode not in (0, 2) or "unexpected" in said or "Traceback" in said:
            yield f"{told}: exit code {done.returncode}: {said[-300:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=5000, help="of each kind, read in this process")
    parser.add_argument("--commands", type=int, default=500, help="run as processes with limited memory and time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", help="one kind")
    given = parser.parse_args()
    n_faults = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        every = kinds(folder)
        for kind in every.values() if given.only is None else [every[given.only]]:
            begun = time.perf_counter()
            for fault in faults_of_reader(kind, given.seed, range(given.first, given.first + given.inputs), folder):
                n_faults += 1
                sys.stdout.write(f"{fault}\n")
            sys.stdout.write(f"{kind.name}: {given.inputs} inputs, {time.perf_counter() - begun:.0f} s\n")
            sys.stdout.flush()
        if given.only is None:
            for fault in faults_of_commands(
                every, given.seed, range(given.first, given.first + given.commands), folder
            ):
                n_faults += 1
                sys.stdout.write(f"{fault}\n")
                sys.stdout.flush()
            sys.stdout.write(f"{given.commands} commands\n")
    sys.stdout.write(f"{json.dumps({'faults': n_faults})}\n")
    raise SystemExit(1 if n_faults else 0)


if __name__ == "__main__":
    main()
