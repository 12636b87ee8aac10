"""Which weights of a chain share a strength."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.groups import ALL, REST, Groups, GroupSpec, groups_of_columns
from tikhon.models.chain.hidden_units import HiddenLayer
from tikhon.models.chain.layout import ChainLayout, Layout

TEMPLATE = "template"
STRENGTH_OF_NOTHING = 1.0
INPUTS, HIDDEN_TO_LABEL, BIASES = "inputs", "hidden_to_label", "biases"
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
        return _one_group(layout.n_weights)
    index, numbers = _feature_groups(spec, names, layout.n_features, ALL)
    return _with_transitions([index[layout.pair_features]], numbers, layout)


def hidden_unit_groups(spec: GroupSpec, names: Sequence[str] | None, layout: ChainLayout[HiddenLayer]) -> Groups:
    """Groups of features, each with its weights for all hidden units, of weights between units and labels, of biases, and of
    transitions; as ``chain_groups``."""
    if spec is None:
        return _one_group(layout.n_weights)
    layer = layout.emission
    index, numbers = _feature_groups(spec, names, layer.n_features, INPUTS)
    found: Any = np.empty(layer.n_weights, np.intp)
    of_features, of_units, of_labels, of_scores = layer.parts(found)
    of_features[:] = index[:, None]
    of_labels[:] = numbers.setdefault(HIDDEN_TO_LABEL, len(numbers))
    of_units[:] = of_scores[:] = numbers.setdefault(BIASES, len(numbers))
    return _with_transitions([found], numbers, layout)


def _one_group(n_weights: int) -> Groups:
    return Groups(np.zeros(n_weights, np.intp), (ALL,), np.full(1, np.nan))


def _feature_groups(
    spec: GroupSpec, names: Sequence[str] | None, n_features: int, of_columns: str
) -> tuple[NDArray[np.intp], dict[str, int]]:
    """The group of each feature, and the numbers of the groups; ``of_columns`` names that of all columns of arrays."""
    columns = [f"x{j}" for j in range(n_features)] if names is None else names
    if isinstance(spec, str) and spec == TEMPLATE:
        spec = [of_columns] * len(columns) if names is None else templates(names)
    elif isinstance(spec, str) and spec != "separate":
        raise InputError(f"groups={spec!r}: write 'template', 'separate', None, an array, a dict or a function")
    index, groups = groups_of_columns(spec, columns)
    return index, {name: number for number, name in enumerate(groups)}


def _with_transitions(per_weight: list[NDArray[np.intp]], numbers: dict[str, int], layout: ChainLayout[Any]) -> Groups:
    for name, rows in zip(TRANSITIONS, layout.transitions, strict=False):
        per_weight.append(np.full(len(rows), numbers.setdefault(name, len(numbers)), np.intp))
    every = np.concatenate(per_weight)
    sizes = np.bincount(every[every >= 0], minlength=len(numbers))
    # Templates seen only without labels, or transitions seen in no sequence, have no weights to learn a strength from.
    return Groups(every, tuple(numbers), np.where(sizes > 0, np.nan, STRENGTH_OF_NOTHING))
