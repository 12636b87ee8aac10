"""The scores that one structure uses."""

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import compiled
from tikhon.kernels.folding.inside import four
from tikhon.kernels.folding.outside import LONGEST_HAIRPIN, Uses


@compiled
def count_structure(letters: NDArray[np.int64], partners: NDArray[np.int64], uses: Uses) -> None:
    """Adds to ``uses``. Both arrays have an entry beyond each end; partners are 0 for unpaired letters.

    The structure must have a parse: the lengths of its loops are not checked again.
    """
    n, x = len(letters) - 2, letters
    k = 1
    while k <= n:
        if partners[k] == 0:
            uses.external[0] += 1.0
            k += 1
        else:
            q = partners[k]
            uses.external[1] += 1.0
            uses.branch[four(x[q], x[k], x[q + 1], x[k - 1])] += 1.0
            k = q + 1
    for i in range(1, n + 1):
        j = partners[i]
        if j <= i:
            continue
        uses.pair[x[i], x[j]] += 1.0
        n_pairs, unpaired, p, q, k = 0, 0, 0, 0, i + 1
        while k < j:  # the first pair inside, the number of pairs, and the unpaired letters next to them
            if partners[k] == 0:
                unpaired += 1
                k += 1
            else:
                n_pairs += 1
                if n_pairs == 1:
                    p, q = k, partners[k]
                k = partners[k] + 1
        outer = four(x[i], x[j], x[i + 1], x[j - 1])
        if n_pairs == 0:
            uses.closing[outer] += 1.0
            uses.hairpin[min(unpaired, LONGEST_HAIRPIN)] += 1.0
        elif n_pairs > 1:
            uses.multi[0] += 1.0
            uses.multi[1] += unpaired
            uses.multi[2] += n_pairs + 1
            uses.branch[outer] += 1.0
            k = i + 1
            while k < j:
                if partners[k] == 0:
                    k += 1
                else:
                    uses.branch[four(x[partners[k]], x[k], x[partners[k] + 1], x[k - 1])] += 1.0
                    k = partners[k] + 1
        elif unpaired == 0:
            uses.stack[outer] += 1.0
        else:
            left, right = p - i - 1, j - q - 1
            uses.loop[left, right] += 1.0
            uses.closing[outer] += 1.0
            uses.closing[four(x[q], x[p], x[q + 1], x[p - 1])] += 1.0
            if unpaired == 1:
                uses.bulge[x[i + 1] if left == 1 else x[j - 1]] += 1.0
            elif left == 1 and right == 1:
                uses.internal[x[i + 1], x[j - 1]] += 1.0
