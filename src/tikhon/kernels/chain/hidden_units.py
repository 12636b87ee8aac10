"""Binary hidden units between the features of a token and its labels, summed out: scores and their derivatives.

Label k of a token scores c_k + sum_h softplus(u_h + v_kh), where u_h is the input of unit h and v_kh what it adds to label k
(van der Maaten, Welling, Saul 2011, section 2.2). With p = max(u, 0),

    softplus(u + v) = p + log(a + g f),    a = exp(-p),    g = exp(u - p),    f = exp(v),

so that exponentials are needed per (token, unit) and per (label, unit), not per (token, label, unit). The sum of p over the
units is the same for all labels of a token, hence cancels, and is left out. Since max(a, g) = 1, a + g f is between
min(1, f) and 1 + f, whatever the data: the product of ``span`` of these factors stays within floating-point range, and
needs one logarithm. ``span`` depends on the weights v alone.

Beyond ``WIDEST`` weights v, functions whose names begin with ``far`` compute each term by itself.

All arrays by label have rows for P labels, K rounded up to a multiple of four. Inner loops take four labels at a time; those
of the padding have f = 1 and derivatives of 0.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import inlined_in_order, inlined_late

Array = NDArray[np.float64]

WIDEST = 150.0  # limit on |v|: beyond, products of four factors could leave the range of floating point
LOG_OF_RANGE = 690.0  # less than the logarithm of the largest number
TILE = 128  # units whose exponentials, for all labels, stay in the nearest cache

LOWEST = -700.0  # exponents are cut here: what is left out is negligible next to exp(-WIDEST)
PER_LOG_2, HIGH_LOG_2, LOW_LOG_2 = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: the low bits of x + ROUNDER hold x rounded to a whole number
COEFFICIENTS = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))


@inlined_in_order
def fill_exponentials(exponents: Array, out: Array, steps: Array) -> None:
    """out = exp(exponents), which are at most -``LOWEST`` in size, to two units in the last place.

    exp(x) = 2^n exp(r) with n whole and |r| <= log(2) / 2; n is added to the exponent's bits. All loops are vectorised,
    which calls of a library's exponential are not. ``steps`` is memory of the same length.
    """
    for i in range(len(out)):
        x = min(max(exponents[i], LOWEST), -LOWEST)
        shifted = x * PER_LOG_2 + ROUNDER
        n = shifted - ROUNDER
        r = x - n * HIGH_LOG_2
        r -= n * LOW_LOG_2
        total = COEFFICIENTS[0]
        for coefficient in COEFFICIENTS[1:]:
            total = total * r + coefficient
        out[i], steps[i] = total, shifted
    bits, step_bits = out.view(np.int64), steps.view(np.int64)
    for i in range(len(out)):
        bits[i] += step_bits[i] << 52


@inlined_in_order
def exponentials(exponents: Array) -> Array:
    """exp of each entry of a matrix."""
    found, steps = np.empty_like(exponents), np.empty(exponents.shape[1])
    for row in range(len(exponents)):
        fill_exponentials(exponents[row], found[row], steps)
    return found


@inlined_in_order
def split_exponentials(inputs: Array, decays: Array, growths: Array) -> None:
    """For the inputs u of units (tokens x H), fills a = exp(-max(u, 0)) and g = exp(min(u, 0))."""
    n_units = inputs.shape[1]
    sizes, steps = np.empty(n_units), np.empty(n_units)
    for t in range(len(inputs)):
        given, decay, growth = inputs[t], decays[t], growths[t]
        for h in range(n_units):
            sizes[h] = -abs(given[h])
        fill_exponentials(sizes, decay, steps)
        for h in range(n_units):
            value, positive = decay[h], given[h] > 0.0
            decay[h] = value if positive else 1.0
            growth[h] = 1.0 if positive else value


@inlined_late
def score_labels(decays: Array, growths: Array, factors: Array, span: int, scores: Array) -> None:
    """Adds sum_h log(a_th + g_th f_kh) to ``scores`` (tokens x P); ``factors`` (P x H) are f."""
    n_tokens, n_units = decays.shape
    width = len(factors)
    products = np.ones((n_tokens, width))
    tile, used = min(TILE, span), 0
    for first in range(0, n_units, tile):
        last = min(n_units, first + tile)
        if used + last - first > span:
            take_logarithms(products, scores)
            used = 0
        used += last - first
        for t in range(n_tokens):
            decay, growth, into = decays[t, first:last], growths[t, first:last], products[t]
            for k in range(0, width, 4):
                p, q = factors[k, first:last], factors[k + 1, first:last]
                r, s = factors[k + 2, first:last], factors[k + 3, first:last]
                w, x, y, z = 1.0, 1.0, 1.0, 1.0
                for h in range(last - first):
                    a, g = decay[h], growth[h]
                    w *= a + g * p[h]
                    x *= a + g * q[h]
                    y *= a + g * r[h]
                    z *= a + g * s[h]
                into[k] *= w
                into[k + 1] *= x
                into[k + 2] *= y
                into[k + 3] *= z
    take_logarithms(products, scores)


@inlined_late
def take_logarithms(products: Array, scores: Array) -> None:
    for t in range(len(products)):
        for k in range(products.shape[1]):
            scores[t, k] += math.log(products[t, k])
            products[t, k] = 1.0


@inlined_late
def derive(
    decays: Array, growths: Array, factors: Array, by_score: Array, by_input: Array, by_label: Array
) -> None:  # fmt: skip
    """Fills ``by_input`` (tokens x H) and adds to ``by_label`` (P x H) the derivatives of sum_tk d_tk s_tk, d = ``by_score``.

    They are sums of d_tk sigma_tkh with sigma = g f / (a + g f) = 1 - a / (a + g f). Four labels share a division: the
    reciprocals of four numbers follow from that of their product.
    """
    n_tokens, n_units = decays.shape
    width = len(factors)
    for k in range(width):
        total = 0.0
        for t in range(n_tokens):
            total += by_score[t, k]
        for h in range(n_units):
            by_label[k, h] += total
    for t in range(n_tokens):
        decay, growth, into = decays[t], growths[t], by_input[t]
        total = 0.0
        for k in range(width):
            total += by_score[t, k]
        for h in range(n_units):
            into[h] = total
        for k in range(0, width, 4):
            d, e, m, n = by_score[t, k], by_score[t, k + 1], by_score[t, k + 2], by_score[t, k + 3]
            if d == 0.0 and e == 0.0 and m == 0.0 and n == 0.0:
                continue
            p, q, r, s = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
            into_p, into_q, into_r, into_s = by_label[k], by_label[k + 1], by_label[k + 2], by_label[k + 3]
            for h in range(n_units):
                a, g = decay[h], growth[h]
                w, x, y, z = a + g * p[h], a + g * q[h], a + g * r[h], a + g * s[h]
                wx, yz = w * x, y * z
                share = a / (wx * yz)
                of_wx, of_yz = share * yz, share * wx
                w, x, y, z = d * (of_wx * x), e * (of_wx * w), m * (of_yz * z), n * (of_yz * y)
                into_p[h] -= w
                into_q[h] -= x
                into_r[h] -= y
                into_s[h] -= z
                into[h] -= (w + x) + (y + z)


# Along a direction: rates of change of the inputs (tokens x H) and of the weights v (P x H).


@inlined_late
def score_rates(
    decays: Array, growths: Array, factors: Array, input_rates: Array, label_rates: Array, rates: Array
) -> None:  # fmt: skip
    """Adds the rates of the scores, sum_h sigma_tkh (du_th + dv_kh), to ``rates`` (tokens x P)."""
    n_tokens, n_units = decays.shape
    for t in range(n_tokens):
        decay, growth, moved = decays[t], growths[t], input_rates[t]
        for k in range(len(factors)):
            f, turned, total = factors[k], label_rates[k], 0.0
            for h in range(n_units):
                rising = growth[h] * f[h]
                total += rising / (decay[h] + rising) * (moved[h] + turned[h])
            rates[t, k] += total


@inlined_late
def derive_rates(
    decays: Array, growths: Array, factors: Array, input_rates: Array, label_rates: Array, by_score: Array,
    by_score_rates: Array, by_input: Array, by_label: Array,
) -> None:  # fmt: skip
    """As ``derive``, the rates of these derivatives: sums of e_tk sigma + d_tk sigma (1 - sigma) (du_th + dv_kh), where
    ``by_score_rates`` are e."""
    n_tokens, n_units = decays.shape
    by_input[:] = 0.0
    for t in range(n_tokens):
        decay, growth, moved, into = decays[t], growths[t], input_rates[t], by_input[t]
        for k in range(len(factors)):
            f, turned, into_label = factors[k], label_rates[k], by_label[k]
            d, e = by_score[t, k], by_score_rates[t, k]
            for h in range(n_units):
                rising = growth[h] * f[h]
                inverse = 1.0 / (decay[h] + rising)
                sigma = rising * inverse
                rate = sigma * (e + d * (decay[h] * inverse) * (moved[h] + turned[h]))
                into[h] += rate
                into_label[h] += rate


@inlined_late
def derive_squares(
    decays: Array, growths: Array, factors: Array, by_score: Array, by_input: Array, by_label: Array
) -> None:  # fmt: skip
    """As ``derive``, with sigma^2 in place of sigma."""
    n_tokens, n_units = decays.shape
    by_input[:] = 0.0
    for t in range(n_tokens):
        decay, growth, into = decays[t], growths[t], by_input[t]
        for k in range(len(factors)):
            f, into_label, d = factors[k], by_label[k], by_score[t, k]
            for h in range(n_units):
                rising = growth[h] * f[h]
                sigma = rising / (decay[h] + rising)
                into[h] += d * sigma * sigma
                into_label[h] += d * sigma * sigma


# With the states of the units that score best in place of sums over them: max(u + v, 0) in place of softplus(u + v).


@inlined_late
def score_best_states(inputs: Array, label_weights: Array, scores: Array) -> None:
    """Adds sum_h max(u_th + v_kh, 0) to ``scores``."""
    for t in range(len(inputs)):
        given = inputs[t]
        for k in range(len(label_weights)):
            added, total = label_weights[k], 0.0
            for h in range(len(given)):
                total += max(given[h] + added[h], 0.0)
            scores[t, k] += total


@inlined_late
def derive_best_states(
    inputs: Array, label_weights: Array, by_score: Array, by_input: Array, by_label: Array
) -> None:  # fmt: skip
    """Its derivatives, as in ``derive``: d_tk where u_th + v_kh is positive. Most d are 0, of labels found right."""
    by_input[:] = 0.0
    for t in range(len(inputs)):
        given, into = inputs[t], by_input[t]
        for k in range(len(label_weights)):
            d, added, into_label = by_score[t, k], label_weights[k], by_label[k]
            if d != 0.0:
                for h in range(len(given)):
                    share = d if given[h] + added[h] > 0.0 else 0.0
                    into[h] += share
                    into_label[h] += share
