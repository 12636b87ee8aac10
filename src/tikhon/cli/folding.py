"""Shared by the ``tikhon fold`` commands: models, folding, files of structures and drawings, scores.

Folding uses the model of tikhon.models directly: the estimator depends on scikit-learn, which takes longer to import than a
molecule of a hundred letters takes to fold. Fitting uses the estimator.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from pathlib import Path

import numpy as np

from tikhon.cli.molecules import Given, checked_structure
from tikhon.data.dot_bracket import partners_of
from tikhon.data.files import check_writable, reading, replacing
from tikhon.data.pair_tables import bpseq_text, ct_text
from tikhon.data.rna import PRETRAINED
from tikhon.errors import InputError
from tikhon.kernels.folding.inside import NONE, Molecule
from tikhon.models.folding.prediction import LONGEST_SEQUENCE, Prediction, Predictor, Request, sampling_seed
from tikhon.models.folding.structures import Rules, encoded, pair_counts, share, strangers
from tikhon.models.folding.weights import folding_weights
from tikhon.objective import Vector

LEAST_PROBABILITY = 1e-6  # of a pair that is written
MOST_PLOTS = 100
LONGEST_NAME = 100  # of a molecule, in the name of a file


# Models.


@dataclass(frozen=True, eq=False)
class Folder:
    """Weights, the rules of structures, and the longest accepted sequence."""

    weights: Vector
    rules: Rules
    longest: int

    @property
    def predictor(self) -> Predictor:
        return Predictor(self.weights, self.rules)

    def molecule(self, given: Given, known: Given | None) -> Molecule:
        letters = encoded(given.record.sequence)
        if known is None:
            return self.predictor.molecule(letters, None, given.where)
        partners = checked_structure(known.record.structure or "", known.where)
        return self.predictor.molecule(letters, partners, known.where)


def read_folder(path: Path | None, *, longest: int | None, least_hairpin: int | None = None) -> Folder:
    """The model of a file of tikhon, or of CONTRAfold or EternaFold parameters; None: the packaged one."""
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
    """A safetensors file begins with an eight-byte header length and a brace; parameter files are text."""
    with reading(path) as (content, _):
        return path.suffix == ".safetensors" or content.read(9)[8:] == b"{"


def _model_file(path: Path) -> Folder:
    from tikhon.data.safefile import MODEL_KIND, MODEL_VERSION, read_file
    from tikhon.estimators.folding.description import FOLDER_FILE

    header, arrays = read_file(path, kind=MODEL_KIND, max_version=MODEL_VERSION)
    kind = header.get("estimator")
    if kind != "RNAFolder":
        raise InputError(f"{path}: is a {kind} model; tikhon fold needs one written by tikhon fold fit")
    FOLDER_FILE.check(path, header, arrays)
    stored = header["parameters"]
    rules = Rules(**{name: stored[name] for name in Rules.__dataclass_fields__ if name in stored})
    return Folder(arrays["tuning.weights"], rules, stored.get("longest_sequence", LONGEST_SEQUENCE))


def _parameter_file(path: Path) -> Folder:
    from tikhon.data.rna_parameters import read_weights

    return Folder(read_weights(path, folding_weights().names), Rules(), LONGEST_SEQUENCE)


# Folding.


def request_for(*, method: str, gamma: float, samples: int = 1, seed: int = 0, pairs: bool = False) -> Request:
    """The request for each molecule from the options; ``pairs``: whether probabilities are needed."""
    drawn = sampling_seed(np.random.RandomState(seed))
    least = LEAST_PROBABILITY if pairs else None
    return Request(method=method, gamma=gamma, count=samples, seed=drawn, least_probability=least)


@dataclass(frozen=True, eq=False)
class Folded:
    """A molecule of a file with its prediction."""

    given: Given
    found: Prediction


def fold(
    folder: Folder, request: Request, number: int, given: Given, known: Given | None, n_threads: int = 1
) -> Folded:
    known_as = None if known is None else known.where
    one = folder.molecule(given, known)
    found = folder.predictor.predict(one, request, number, where=given.where, known=known_as, n_threads=n_threads)
    return Folded(given, found)


# Files of structures.


def structure_text(folded: Folded, file_format: str, *, drawn: bool) -> str:
    """All structures of a molecule; sampled ones (``drawn``) are numbered."""
    given, parts = folded.given, []
    sequence = given.record.sequence
    for number, structure in enumerate(folded.found.structures, 1):
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
    pairs, label = folded.found.pairs.tocoo(), folded.given.label
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
            words: dict[str, None] = {}
            for given in molecules:
                word = "".join(m if m.isalnum() or m in "._-" else "_" for m in given.label)[:LONGEST_NAME]
                names = chain([word], (f"{word}-{number}" for number in count(2)))
                words[next(name for name in names if name not in words)] = None
            self.paths = [path.with_name(f"{path.stem}-{word}.svg") for word in words]
        for one in self.paths:
            check_writable(one)

    def write(self, number: int, folded: Folded, draw: Callable[..., str]) -> None:
        given = folded.given
        svg = draw(given.record.sequence, folded.found.structures[0], folded.found.pairs, title=given.label)
        with replacing(self.paths[number], zipped=False) as file:
            file.write(svg.encode("utf-8"))


def few(molecules: Iterable[Given]) -> list[Given]:
    """As many molecules as can be drawn, and one more if there are too many."""
    return list(islice(molecules, MOST_PLOTS + 1))


# Scores.


@dataclass(frozen=True)
class Scores:
    """Scores of one molecule: shares of its pairs, and -log p of its structure, None if the model has no parse for it.

    ``told``: whether any letter is known; if not, the shares are meaningless.
    """

    told: bool
    sensitivity: float
    ppv: float
    f1: float
    log_loss: float | None
    n_odd: int  # pairs that the model does not allow, read as unpaired in the log loss


def scores(folder: Folder, request: Request, given: Given) -> Scores:
    """Predicted pairs of two letters whose partners are unknown count neither as right nor as wrong."""
    folded = fold(folder, request, 0, given, None)
    truth = checked_structure(given.record.structure or "", given.where)
    right, true, told = pair_counts(truth, partners_of(folded.found.structures[0]))
    letters, predictor = encoded(given.record.sequence), folder.predictor
    log_z = folded.found.log_z
    if log_z is None:
        log_z = predictor.log_partition(folder.molecule(given, None))
    log_agreeing = predictor.log_partition(predictor.agreeing(letters, truth))
    return Scores(
        told=bool((truth >= NONE).any()),
        sensitivity=share(right, true), ppv=share(right, told), f1=share(2 * right, true + told),
        log_loss=None if log_agreeing is None or log_z is None else log_z - log_agreeing,
        n_odd=len(strangers(letters, truth, folder.rules)) // 2,
    )  # fmt: skip
