"""Which weights of a chain CRF share a strength."""

from collections.abc import Sequence

import numpy as np

from tikhon.errors import InputError
from tikhon.groups import ALL, REST, Groups, GroupSpec, groups_of_columns
from tikhon.models.chain.layout import Layout

TEMPLATE = "template"
STRENGTH_OF_NOTHING = 1.0
TRANSITIONS = ("transitions", "transitions2")  # of label pairs, of label triples


def templates(names: Sequence[str]) -> list[str]:
    """The template of each feature: the part of its name before "=", or before ":" if most names have no "=".

    Names without that mark form the group "rest": there may be as many of them as there are words.
    """
    mark = "=" if 2 * sum("=" in name for name in names) >= len(names) else ":"
    return [before if found else REST for before, found, _ in (name.partition(mark) for name in names)]


def chain_groups(spec: GroupSpec, names: Sequence[str] | None, layout: Layout) -> Groups:
    """Groups of features, each with its weights for all labels, and of transitions.

    ``names`` are those of the features, None for columns of arrays. With ``spec`` None all weights are one group.
    """
    if spec is None:
        return Groups(np.zeros(layout.n_weights, np.intp), (ALL,), np.full(1, np.nan))
    columns = [f"x{j}" for j in range(layout.n_features)] if names is None else names
    if isinstance(spec, str) and spec == TEMPLATE:
        spec = [ALL] * len(columns) if names is None else templates(names)
    elif isinstance(spec, str) and spec != "separate":
        raise InputError(f"groups={spec!r}: write 'template', 'separate', None, an array, a dict or a function")
    index, groups = groups_of_columns(spec, columns)
    numbers = {name: number for number, name in enumerate(groups)}
    per_weight = [index[layout.pair_features]]
    for name, rows in zip(TRANSITIONS, layout.transitions, strict=False):
        per_weight.append(np.full(len(rows), numbers.setdefault(name, len(numbers)), np.intp))
    every = np.concatenate(per_weight)
    sizes = np.bincount(every[every >= 0], minlength=len(numbers))
    # Templates seen only without labels, or transitions seen in no sequence, have no weights to learn a strength from.
    return Groups(every, tuple(numbers), np.where(sizes > 0, np.nan, STRENGTH_OF_NOTHING))
