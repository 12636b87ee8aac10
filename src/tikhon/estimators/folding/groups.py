"""Which weights of a folding model share a strength, and which are left out."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.groups import ALL, Groups, GroupSpec, groups_of_columns
from tikhon.models.folding.weights import GROUPS, folding_weights

KINDS = "kind"
LEFT_OUT = "left out"


def groups_of_weights(spec: GroupSpec) -> Groups:
    names = folding_weights().names
    if spec is None:
        return Groups(np.zeros(len(names), np.intp), (ALL,), np.full(1, np.nan))
    if isinstance(spec, str) and spec == KINDS:
        return Groups(folding_weights().groups.copy(), GROUPS, np.full(len(GROUPS), np.nan))
    if isinstance(spec, str) and spec != "separate":
        raise InputError(f"groups={spec!r}: write 'kind', 'separate', None, an array, a dict or a function")
    index, groups = groups_of_columns(spec, names)
    return Groups(index, groups, np.full(len(groups), np.nan))


def left_out_weights(without: Any) -> NDArray[np.bool_]:
    """Which weights belong to these kinds."""
    if isinstance(without, str) or not isinstance(without, Iterable):
        raise InputError(f"without={without!r}: write a list of kinds, such as ['dangle']")
    kinds = list(without)
    for kind in kinds:
        if kind not in GROUPS:
            raise InputError(f"without names the unknown kind {kind!r}: the kinds are {', '.join(GROUPS)}")
    if len(set(kinds)) == len(GROUPS):
        raise InputError("without leaves out every kind of feature: keep at least one")
    return np.isin(folding_weights().groups, [GROUPS.index(kind) for kind in kinds])


def with_those_left_out(groups: Groups, left_out: NDArray[np.bool_]) -> Groups:
    """The groups of the other weights, and one more for those left out, whose strength has no effect."""
    if not left_out.any():
        return groups
    index = np.where(left_out, -1, groups.index)  # -1: not penalised
    kept = np.unique(index[index >= 0])
    every = np.where(left_out, len(kept), np.where(index >= 0, np.searchsorted(kept, index), -1)).astype(np.intp)
    names = (*(groups.names[number] for number in kept), LEFT_OUT)
    return Groups(every, names, np.append(groups.fixed[kept], 1.0))
