"""What the ``tikhon fold`` commands share: molecules of files, constraints, models, structures and their files.

Folding goes straight to the model of tikhon.models: the estimator stands on scikit-learn, and to import that takes longer than
to fold a molecule of a hundred letters. Fitting uses the estimator.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tikhon.data.dot_bracket import CROSSING, dot_bracket, n_crossing, partners_of
from tikhon.data.files import check_writable, reading, replacing
from tikhon.data.pair_tables import UNKNOWN, bpseq_text, ct_text
from tikhon.data.rna import OTHER_CODES, PRETRAINED, STDIN, Record, stream_rna
from tikhon.errors import FileFormatError, InputError
from tikhon.kernels.fold_inside import ANY, NONE, Molecule
from tikhon.models.folding_decoder import best_structure, drawn_structures, log_partition, posterior
from tikhon.models.folding_passes import table_bytes
from tikhon.models.folding_structures import Letters, Partners, Rules, encoded, molecule, unknown_molecule
from tikhon.models.folding_weights import folding_weights
from tikhon.objective import Vector

Job = TypeVar("Job")
Done = TypeVar("Done")

LONGEST = 6000  # as in tikhon.estimators, whose import is what this module avoids; a test compares them

ENDINGS = (".bpseq", ".ct", ".dbn", ".db", ".fa", ".fasta")  # of files that are taken from a directory
LEAST_PROBABILITY = 1e-6  # of a pair that is written
MOST_PLOTS = 100
AHEAD = 4  # molecules for each thread that are folded or wait to be written
SAMPLE = "sample"


# Molecules.


@dataclass(frozen=True)
class Given:
    """A record, and what messages call it: its file, line and name."""

    where: str
    record: Record

    @property
    def label(self) -> str:
        """The name as one word without characters that files and terminals trip over."""
        return "".join(mark if mark.isprintable() and mark != " " else "_" for mark in self.record.name)

    @property
    def n_unknown(self) -> int:
        return sum(letter in OTHER_CODES for letter in self.record.sequence)

    @property
    def work(self) -> int:
        """Time that folding takes, in no unit: loops of 30 letters around each pair, of which there are n^2 / 2."""
        return len(self.record.sequence) ** 2


@dataclass(frozen=True)
class Molecules:
    """Those of a file, a directory, or stdin (once only), read when they are asked for."""

    path: Path
    longest: int

    def __iter__(self) -> Iterator[Given]:
        for file in _files(self.path):
            name = "stdin" if file == STDIN else str(file)
            for record in stream_rna(file):
                where = f"{name}, line {record.line}: {record.name}"
                n = len(record.sequence)
                if n > self.longest:
                    raise InputError(
                        f"{where} has {n:,} letters: its tables would take {table_bytes(n) / 1e9:.1f} GB; --longest "
                        f"{self.longest} refuses it: leave it out, or raise --longest where there is so much memory"
                    )
                yield Given(where, record)


def _files(path: Path) -> list[Path]:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: is not a file; write - to read stdin")
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.name.lower().removesuffix(".gz").endswith(ENDINGS))
    if not found:
        raise InputError(f"{path}: no file in this directory ends in {', '.join(ENDINGS)}, or one of these and .gz")
    return found


def with_structures(molecules: Iterable[Given]) -> list[Given]:
    """All molecules; each must have a structure that can be read."""
    found = list(molecules)
    for given in found:
        if given.record.structure is None:
            raise FileFormatError(f"{given.where} has no structure: write it below the sequence, or give bpseq or ct")
        checked_structure(given.record.structure, given.where)
    return found


def checked_structure(structure: str, where: str) -> Partners:
    """Its partners, ANY where it has "?"; pairs that cross are left out."""
    try:
        partners = partners_of(structure.replace(UNKNOWN, "."))
    except InputError as error:
        raise FileFormatError(f"{where}: {error}") from None
    for opening, closing in CROSSING.items():
        if structure.count(opening) != structure.count(closing):
            raise FileFormatError(
                f"{where}: the structure has {structure.count(opening)} {opening!r} and {structure.count(closing)} "
                f"{closing!r}: as many are needed"
            )
    return np.where(np.array(list(structure)) == UNKNOWN, ANY, partners)


def warnings_about(n_unknown: int, crossing: int) -> list[str]:
    """What was read as something else."""
    found = []
    if n_unknown:
        found.append(f"letters that are not A, C, G or U: {n_unknown}; they pair with nothing and add nothing")
    if crossing:
        found.append(f"pairs that cross others: {crossing}; pseudoknots are read as unpaired")
    return found


def crossing_pairs(molecules: Iterable[Given]) -> int:
    return sum(n_crossing(given.record.structure or "") for given in molecules)


# Constraints.


class Constraints:
    """What is known of the structures: by name where the file has names, else in the order of the molecules."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.given = [
            Given(f"{path}, line {record.line}: {record.name}", record)
            for record in stream_rna(path, needs_sequence=False)
        ]
        self.crossing = crossing_pairs(self.given)
        self.in_order = all(given.record.name == f"sequence {n}" for n, given in enumerate(self.given, 1))
        self.by_name: dict[str, Given] = {}
        for given in self.given:
            if given.record.structure is None:
                raise FileFormatError(f"{given.where} has no structure: write one, with '?' where nothing is known")
            if given.label in self.by_name:
                raise FileFormatError(f"{given.where} is there twice: constraints are matched by name")
            self.by_name[given.label] = given

    def of(self, number: int, given: Given) -> Given | None:
        """That of a molecule and its number, from 0; None where nothing is known of it."""
        if self.in_order and number >= len(self.given):
            raise InputError(
                f"{self.path}: has {len(self.given)} structures without names, and there are more sequences: write one for "
                "each, or give them names"
            )
        known = self.given[number] if self.in_order else self.by_name.get(given.label)
        if known is None:
            return None
        n, sequence = len(given.record.sequence), known.record.sequence
        if sequence and _plain(sequence) != _plain(given.record.sequence):
            raise InputError(f"{known.where} has another sequence than {given.where}: constraints need the same")
        if len(known.record.structure or "") != n:
            raise InputError(
                f"{known.where} has {len(known.record.structure or '')} marks, and {given.where} {n} letters: write a mark for "
                "each letter"
            )
        return known

    def check_all_used(self, names: set[str], count: int) -> None:
        """Those of no molecule are a mistake."""
        if self.in_order and len(self.given) > count:
            raise InputError(f"{self.path}: has {len(self.given)} structures and there are {count} sequences")
        unused = [] if self.in_order else [given for label, given in self.by_name.items() if label not in names]
        if unused:
            raise InputError(
                f"{unused[0].where} is the name of no sequence ({len(unused)} such): correct it or leave it out"
            )


def _plain(sequence: str) -> str:
    return sequence.upper().replace("T", "U")


# Models.


@dataclass(frozen=True, eq=False)
class Folder:
    """Weights, what structures there are, and the longest sequence that is taken."""

    weights: Vector
    rules: Rules
    longest: int

    def molecule(self, given: Given, known: Given | None) -> Molecule:
        letters = encoded(given.record.sequence)
        if known is None:
            return unknown_molecule(letters, self.rules)
        partners = checked_structure(known.record.structure or "", known.where)
        places = np.flatnonzero(partners > NONE)
        near = places[np.abs(places - partners[places] + 1) <= self.rules.least_hairpin]
        odd = np.concatenate([self.strangers(letters, partners), near])
        if len(odd):
            i, sequence = int(odd[0]), given.record.sequence
            j = int(partners[i]) - 1
            raise InputError(
                f"{known.where} pairs {sequence[i]} at {i + 1} with {sequence[j]} at {j + 1}, which the model does not allow: "
                "write '?' for both"
            )
        return molecule(letters, self.rules, partners, np.zeros(len(letters), bool))

    def strangers(self, letters: Letters, partners: Partners) -> NDArray[np.intp]:
        """Places, from 0, of letters whose partner is one that they cannot pair with."""
        places = np.flatnonzero(partners > NONE)
        odd: NDArray[np.intp] = places[~self.rules.can_pair()[letters[places], letters[partners[places] - 1]]]
        return odd


def read_folder(path: Path | None, *, longest: int | None, least_hairpin: int | None = None) -> Folder:
    """The model of a file of tikhon, or of parameters of CONTRAfold or EternaFold; None: the one of the package."""
    if path is None:
        folder = _model_file(PRETRAINED)
    elif path.is_dir():
        raise InputError(f"{path}: is a directory; give the name of a model file")
    else:
        folder = _model_file(path) if _is_model_file(path) else _parameter_file(path)
    if least_hairpin is not None:
        folder = replace(folder, rules=replace(folder.rules, least_hairpin=least_hairpin))
    return folder if longest is None else replace(folder, longest=longest)


def _is_model_file(path: Path) -> bool:
    """safetensors begins with the length of a header, eight bytes, and its first brace; parameters are text."""
    with reading(path) as (content, _):
        return path.suffix == ".safetensors" or content.read(9)[8:] == b"{"


def _model_file(path: Path) -> Folder:
    from tikhon.data.safefile import MODEL_KIND, MODEL_VERSION, read_file

    header, arrays = read_file(path, kind=MODEL_KIND, max_version=MODEL_VERSION)
    kind = header.get("estimator")
    if kind != "RNAFolder":
        raise InputError(f"{path}: is a {kind} model; tikhon fold needs one that tikhon fold fit wrote")
    try:
        stored, weights = header["parameters"], np.asarray(arrays["tuning.weights"], np.float64)
        rules = Rules(**{name: stored[name] for name in Rules.__dataclass_fields__ if name in stored})
        if weights.shape != (len(folding_weights().names),) or not np.isfinite(weights).all():
            raise ValueError("weights")
        return Folder(weights, rules, int(stored.get("longest_sequence", LONGEST)))
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path}: lacks or garbles an entry: {error!r}") from None


def _parameter_file(path: Path) -> Folder:
    from tikhon.data.rna_parameters import read_parameters

    names, given = folding_weights().names, read_parameters(path)
    for what, odd in (
        ("lacks", [n for n in names if n not in given]),
        ("has the unknown", sorted({*given} - {*names})),
    ):
        if odd:
            raise FileFormatError(
                f"{path}: {what} weight {odd[0]!r} ({len(odd)} in all): give a model file of tikhon fold fit, or all "
                f"{len(names)} parameters of CONTRAfold or EternaFold"
            )
    return Folder(np.array([given[name] for name in names]), Rules(), LONGEST)


# Folding.


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked of each molecule."""

    method: str
    gamma: float = 6.0
    samples: int = 1
    seed: int = 0
    pairs: bool = False  # are probabilities wanted?
    jobs: int = 1  # threads that may share a long molecule


@dataclass(frozen=True, eq=False)
class Folded:
    """Structures (one, unless they are drawn), and probabilities of pairs i < j, from 0, if they were wanted."""

    given: Given
    structures: list[str]
    pairs: Any
    log_z: float | None


def fold(folder: Folder, wish: Wish, number: int, given: Given, known: Given | None) -> Folded:
    """One posterior serves the structure and the probabilities."""
    known_molecule, longest = folder.molecule(given, known), folder.rules.longest_loop
    arguments = known_molecule, folder.weights, longest
    after = posterior(*arguments, n_threads=wish.jobs) if wish.pairs or wish.method in ("mea", "centroid") else None
    found: list[Partners] | None = None
    if wish.method == "viterbi":
        best = best_structure(*arguments)
        found = None if best is None else [best[1]]
    elif wish.method == SAMPLE:
        # As RNAFolder.sample draws; a generator for each: what is drawn does not depend on the number of threads.
        seed = int(np.random.RandomState(wish.seed).randint(2**31))
        found = drawn_structures(*arguments, wish.samples, np.random.default_rng([seed, number]))
    elif after is not None:
        found = [after.most_accurate(wish.gamma) if wish.method == "mea" else after.centroid(wish.gamma)]
    if found is None or (wish.pairs and after is None):
        why = "" if known is None else f"no structure agrees with {known.where}, or "
        raise InputError(f"{given.where}: {why}sums over its structures are out of the range of floating point")
    pairs = sp.csr_array(np.where(after.pairs >= LEAST_PROBABILITY, after.pairs, 0.0)) if wish.pairs and after else None
    return Folded(given, [dot_bracket(one) for one in found], pairs, None if after is None else after.log_z)


def in_order(function: Callable[[Job], Done], jobs: Iterable[Job], n_threads: int | None) -> Iterator[Done]:
    """What the function makes of each job, by threads; few are under way at a time, so that memory stays bounded."""
    threads = n_threads or cores()
    waiting: deque[Future[Done]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for job in jobs:
            waiting.append(pool.submit(function, job))
            while waiting and (waiting[0].done() or len(waiting) >= AHEAD * threads):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Files of structures.


def structure_text(folded: Folded, file_format: str, *, drawn: bool) -> str:
    """All structures of a molecule; those drawn at random are numbered."""
    given, parts = folded.given, []
    sequence = given.record.sequence
    for number, structure in enumerate(folded.structures, 1):
        about = f"sample {number}" if drawn else "".join(m if m.isprintable() else "_" for m in given.record.about)
        if file_format == "dot-bracket":
            parts.append(f">{f'{given.label} {about}'.strip()}\n{sequence}\n{structure}\n")
        else:
            write = bpseq_text if file_format == "bpseq" else ct_text
            parts.append(write(given.label, about, sequence, partners_of(structure)))
    return "".join(parts)


PROBABILITY_HEADER = "name\ti\tj\tprobability\n"


def probability_rows(folded: Folded) -> str:
    """Pairs of letters, from 1, in order."""
    pairs, label = sp.coo_array(folded.pairs), folded.given.label
    order = np.lexsort((pairs.col, pairs.row))
    numbers = zip(pairs.row[order].tolist(), pairs.col[order].tolist(), pairs.data[order].tolist(), strict=True)
    return "".join(f"{label}\t{i + 1}\t{j + 1}\t{p:.6g}\n" for i, j, p in numbers)


class Plots:
    """Files of drawings: FILE.svg for one molecule, FILE-NAME.svg for each of several."""

    def __init__(self, option: str, path: Path, molecules: Sequence[Given]) -> None:
        if path.suffix != ".svg":
            raise InputError(f"{option} {path}: drawings are SVG, so the name must end in .svg")
        if len(molecules) > MOST_PLOTS:
            raise InputError(f"{option}: there are more than {MOST_PLOTS} sequences: draw fewer at a time")
        self.paths = [path]
        if len(molecules) > 1:
            words = ["".join(m if m.isalnum() or m in "._-" else "_" for m in given.label) for given in molecules]
            places = [words[:number].count(word) for number, word in enumerate(words)]
            self.paths = [
                path.with_name(f"{path.stem}-{word[:100]}{f'-{place + 1}' if place else ''}.svg")
                for word, place in zip(words, places, strict=True)
            ]
        for one in self.paths:
            check_writable(one)

    def write(self, number: int, folded: Folded, draw: Callable[..., str]) -> None:
        given = folded.given
        svg = draw(given.record.sequence, folded.structures[0], folded.pairs, title=given.label)
        with replacing(self.paths[number], zipped=False) as file:
            file.write(svg.encode("utf-8"))


def few(molecules: Iterable[Given]) -> list[Given]:
    """As many as can be drawn, and one more if there are too many."""
    return list(islice(molecules, MOST_PLOTS + 1))


# Scores.


@dataclass(frozen=True)
class Scores:
    """Of one molecule: shares of its pairs, and -log p of its structure, None where the model has no parse for it."""

    sensitivity: float
    ppv: float
    f1: float
    log_loss: float | None
    n_odd: int  # pairs that the model does not know, read as unpaired in the log loss


def scores(folder: Folder, wish: Wish, given: Given) -> Scores:
    """Predicted pairs of letters of which nothing is known are neither right nor wrong."""
    folded = fold(folder, wish, 0, given, None)
    truth = checked_structure(given.record.structure or "", given.where)
    guess = partners_of(folded.structures[0])
    guess[(truth == ANY) | ((guess > NONE) & (truth[guess - 1] == ANY))] = NONE
    right, true, told = (
        int(np.sum(mask)) // 2 for mask in ((truth == guess) & (truth > NONE), truth > NONE, guess > NONE)
    )
    letters, known, rules = encoded(given.record.sequence), truth.copy(), folder.rules
    odd = folder.strangers(letters, truth)
    known[odd] = NONE
    agreeing = molecule(letters, rules, known, np.zeros(len(letters), bool))
    log_z = folded.log_z
    if log_z is None:
        log_z = log_partition(unknown_molecule(letters, rules), folder.weights, rules.longest_loop)
    log_agreeing = log_partition(agreeing, folder.weights, rules.longest_loop)
    return Scores(
        sensitivity=_share(right, true), ppv=_share(right, told), f1=_share(2 * right, true + told),
        log_loss=None if log_agreeing is None or log_z is None else log_z - log_agreeing, n_odd=len(odd) // 2,
    )  # fmt: skip


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
