"""Input validation of RNAFolder: bad sequences and structures raise an ``InputError`` before any work."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.data.dot_bracket import n_crossing, partly_known_partners
from tikhon.data.rna import NUCLEOTIDES, OTHER_CODES
from tikhon.errors import InputError
from tikhon.estimators.user_warnings import Warn, warn_user
from tikhon.models.folding.objective import Example, example
from tikhon.models.folding.passes import table_bytes
from tikhon.models.folding.structures import Letters, Partners, Rules, encoded, known_pairs, strangers

SHOWN = 3  # items of a list in a message


def checked_sequences(X: Any, longest: int, warn: Warn = warn_user) -> list[Letters]:
    """The letters of all sequences; unknown letters are counted in one warning."""
    found, unknown = [], 0
    for number, sequence in enumerate(texts_of("X", X)):
        if not sequence:
            raise InputError(f"sequence {number} of X is empty: leave it out")
        if len(sequence) > longest:
            raise InputError(
                f"sequence {number} of X has {len(sequence):,} letters: its tables would take "
                f"{table_bytes(len(sequence)) / 1e9:.1f} GB; longest_sequence={longest} is the limit: leave it out, or raise "
                "the limit if memory allows"
            )
        for place, letter in enumerate(sequence, 1):
            if letter not in NUCLEOTIDES and letter not in OTHER_CODES:
                raise InputError(
                    f"sequence {number} of X has {letter!r} at position {place}: write A, C, G, U (or T), or N for an unknown "
                    "letter"
                )
        letters = encoded(sequence)
        unknown += int(sum(letter in OTHER_CODES for letter in sequence))
        found.append(letters)
    if not found:
        raise InputError("X holds no sequences: n_samples = 0, at least one is needed")
    if unknown:
        warn(
            f"letters other than A, C, G and U: {unknown}; they pair with nothing and have score 0",
            UserWarning,
        )
    return found


def checked_structures(
    name: str, structures: Any, sequences: Sequence[Letters], warn: Warn = warn_user
) -> list[Partners]:
    """The partners of all structures, including "?" and "|"; crossing pairs are counted in one warning."""
    texts = texts_of(name, structures)
    if len(texts) != len(sequences):
        raise InputError(f"X has {len(sequences)} sequences, but {name} has {len(texts)} structures: give one for each")
    found, crossing = [], 0
    for number, (structure, letters) in enumerate(zip(texts, sequences, strict=True)):
        if len(structure) != len(letters):
            raise InputError(
                f"structure {number} of {name} has {len(structure)} characters, but its sequence has {len(letters)} letters"
            )
        try:
            found.append(partly_known_partners(structure))
        except InputError as error:
            raise InputError(f"structure {number} of {name}: {error}") from None
        crossing += n_crossing(structure)
    if crossing:
        warn(
            f"pairs of {name} in brackets other than ( and ): {crossing}; pseudoknots are read as unpaired",
            UserWarning,
        )
    return found


def examples_of(
    sequences: Sequence[Letters], structures: Sequence[Partners], rules: Rules, warn: Warn = warn_user
) -> tuple[list[Example], NDArray[np.intp]]:
    """Training examples and their numbers; those that no structure agrees with are left out, with a warning.

    Pairs that the rules do not allow are read as unpaired.
    """
    found, kept, left_out, n_odd = [], [], [], 0
    for number, (letters, partners) in enumerate(zip(sequences, structures, strict=True)):
        n_odd += len(strangers(letters, partners, rules)) // 2
        try:
            found.append(example(letters, known_pairs(letters, partners, rules), rules))
            kept.append(number)
        except ValueError as error:
            left_out.append(f"{number} ({error})")
    if n_odd:
        warn(
            f"pairs of y that the model does not allow, such as GA: {n_odd}; they are read as unpaired",
            UserWarning,
        )
    if left_out:
        more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
        listed = f"are left out: {', '.join(left_out[:SHOWN])}{more}"
        if not found:
            raise InputError(f"no structure of y can be used for training; all {listed}")
        warn(
            f"{len(left_out)} of {len(sequences)} structures cannot be used for training and {listed}",
            UserWarning,
        )
    return found, np.array(kept, np.intp)


def texts_of(name: str, values: Any) -> list[str]:
    """A list of the texts, from any iterable."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list of strings, one for each RNA, but is of type {type(values).__name__}")
    if hasattr(values, "columns") or isinstance(values, Mapping):  # iterating over these yields the names of columns
        raise InputError(f"{name} is a {type(values).__name__}: pass the column that holds the strings")
    texts = list(values)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"entry {number} of {name} is of type {type(text).__name__}: write a string")
    return [str(text) for text in texts]
