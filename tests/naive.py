"""Slow, obvious oracles: loops over rows and classes with the mathematics written out."""

import collections
import itertools
import math

import numpy as np


def split_weights(weights, n_outputs, n_columns, fit_intercept):
    coefficients = weights[: n_outputs * n_columns].reshape(n_outputs, n_columns)
    intercepts = weights[n_outputs * n_columns :] if fit_intercept else np.zeros(n_outputs)
    return coefficients, intercepts


def logistic_loss(X, y, weights, fit_intercept, row_weights):
    coefficients, intercepts = split_weights(weights, 1, X.shape[1], fit_intercept)
    total = 0.0
    for x, label, a in zip(X, y, row_weights, strict=True):
        score = math.fsum(x * coefficients[0]) + intercepts[0]
        total += a * -math.log(1 / (1 + math.exp(-score)) if label == 1 else 1 / (1 + math.exp(score)))
    return total


def softmax_loss(X, y, n_classes, weights, fit_intercept, row_weights):
    coefficients, intercepts = split_weights(weights, n_classes, X.shape[1], fit_intercept)
    total = 0.0
    for x, label, a in zip(X, y, row_weights, strict=True):
        scores = [math.fsum(x * coefficients[k]) + intercepts[k] for k in range(n_classes)]
        total += a * -math.log(math.exp(scores[label]) / math.fsum(map(math.exp, scores)))
    return total


def squared_loss(X, Y, weights, fit_intercept, row_weights):
    n_targets = Y.shape[1]
    coefficients, intercepts = split_weights(weights, n_targets, X.shape[1], fit_intercept)
    total = 0.0
    for x, y, a in zip(X, Y, row_weights, strict=True):
        for t in range(n_targets):
            total += 0.5 * a * (math.fsum(x * coefficients[t]) + intercepts[t] - y[t]) ** 2
    return total


def ridge(X, y, strength, fit_intercept, row_weights):
    """The closed form, with a dense solve; ``strength`` has one entry per column."""
    design = np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    penalty = np.diag(np.append(strength, 0.0) if fit_intercept else strength)
    return np.linalg.solve(design.T @ (row_weights[:, None] * design) + penalty, design.T @ (row_weights * y))


def dense_hessian(objective, weights):
    """Column by column from products."""
    product = objective.hessian_at(weights)
    return np.column_stack([product(unit) for unit in np.eye(objective.n_weights)])


def fitted(objective, strength, start=None):
    """Newton's method with a dense Hessian, its flat directions left alone, to the limit of precision."""
    weights = np.zeros(objective.n_weights) if start is None else start
    scale = 1.0 + np.linalg.norm(objective.loss_gradient(np.zeros(objective.n_weights))[1])
    value, gradient = penalised(objective, strength, weights)
    for _ in range(100):
        if np.linalg.norm(gradient) <= 1e-12 * scale:
            break
        hessian = dense_hessian(objective, weights) + np.diag(strength)
        direction = -np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
        step = 1.0
        moved, slope = penalised(objective, strength, weights + direction)
        while moved > value and step > 1e-6 and np.linalg.norm(slope) > np.linalg.norm(gradient):
            step /= 2
            moved, slope = penalised(objective, strength, weights + step * direction)
        if np.linalg.norm(slope) >= np.linalg.norm(gradient) and moved >= value:
            break
        weights, value, gradient = weights + step * direction, moved, slope
    return weights


def penalised(objective, strength, weights):
    loss, gradient = objective.loss_gradient(weights)
    return loss + 0.5 * strength @ weights**2, gradient + strength * weights


def leave_one_out(objective, strength, start=None):
    """A refit without each row, judged by that row."""
    total, row_weights = 0.0, objective.row_weights
    for i in np.flatnonzero(row_weights):
        alone = np.where(np.arange(len(row_weights)) == i, row_weights, 0.0)
        without = fitted(objective.reweighted(row_weights - alone), strength, start)
        total += objective.reweighted(alone).loss_gradient(without)[0]
    return total


def laplace(objective, weights, strength):
    """Minus the log of the Laplace evidence, by an explicit Hessian, up to a constant.

    Along directions of no curvature the determinant is taken as 1.
    """
    hessian = dense_hessian(objective, weights) + np.diag(strength)
    values, vectors = np.linalg.eigh(hessian)
    flat = vectors[:, values < 1e-10 * values[-1]]
    determinant = np.linalg.slogdet(hessian + flat @ flat.T)[1]
    return penalised(objective, strength, weights)[0] + 0.5 * (determinant - np.log(strength[strength > 0]).sum())


def restricted_likelihood(X, y, strength, free):
    """Minus the log marginal likelihood of y ~ N(F b, v (I + X S^-1 X')), b flat and v at its best, up to a constant.

    From the density of the contrasts of y that do not see the columns of F.
    """
    rank = np.linalg.matrix_rank(free) if free.shape[1] else 0  # old versions of numpy refuse a matrix without columns
    contrasts = np.linalg.svd(free)[0][:, rank:] if rank else np.eye(len(y))
    covariance = contrasts.T @ (np.eye(len(y)) + X @ np.diag(1 / strength) @ X.T) @ contrasts
    z = contrasts.T @ y
    m = len(z)
    return 0.5 * (np.linalg.slogdet(covariance)[1] + m * np.log(z @ np.linalg.solve(covariance, z)))


def squares_left_out(X, y, strength, fit_intercept, row_weights):
    """1/2 sum_i a_i e_i^2 with e_i the error of a ridge fitted without row i, by QR of the augmented matrix."""
    total, p = 0.0, X.shape[1]
    for i in np.flatnonzero(row_weights):
        a = np.where(np.arange(len(y)) == i, 0.0, row_weights)
        means, mean = (a @ X / a.sum(), a @ y / a.sum()) if fit_intercept else (np.zeros(p), 0.0)
        scaled, target = np.sqrt(a)[:, None] * (X - means) / np.sqrt(strength), np.sqrt(a) * (y - mean)
        if p > len(y):  # the shortest (v, e) with Bv + e = y: better conditioned
            solution = np.linalg.lstsq(np.hstack([scaled, np.eye(len(y))]), target, rcond=None)[0][:p]
        else:
            augmented = np.vstack([scaled, np.eye(p)])
            solution = np.linalg.lstsq(augmented, np.append(target, np.zeros(p)), rcond=None)[0]
        total += 0.5 * row_weights[i] * (y[i] - mean - ((X[i] - means) / np.sqrt(strength)) @ solution) ** 2
    return total


def chain_labellings(data, layout, sequence):
    """All labellings of a sequence with their feature counts, one row of counts per labelling, in the weights' order."""
    start, end = data.starts[sequence], data.starts[sequence + 1]
    length = end - start
    places = {pair: n for n, pair in enumerate(zip(layout.pair_features, layout.pair_labels, strict=True))}
    at = layout.n_pairs
    for rows in layout.transitions:
        places |= {("step", *row): at + n for n, row in enumerate(rows.tolist())}
        at += len(rows)
    paths, counts = [], []
    for path in itertools.product(range(data.n_labels), repeat=length):
        count = np.zeros(layout.n_weights)
        for t, label in enumerate(path):
            for p in range(data.pointers[start + t], data.pointers[start + t + 1]):
                value = 1.0 if data.values is None else data.values[p]
                if (data.features[p], label) in places:
                    count[places[data.features[p], label]] += value
            for back in range(1, layout.order + 1):
                step = ("step", *path[max(t - back, 0) : t + 1])
                if t >= back and step in places:
                    count[places[step]] += 1.0
        paths.append(path)
        counts.append(count)
    return np.array(paths).reshape(len(paths), length), np.array(counts)


def chain_moments(counts, weights, chosen):
    """log sum exp of the scores of the chosen labellings, the mean and the covariance of their counts."""
    scores = np.where(chosen, counts @ weights, -np.inf)
    log_sum = scores.max() + np.log(np.exp(scores - scores.max()).sum())
    shares = np.exp(scores - log_sum)
    mean = shares @ counts
    return log_sum, mean, (counts * shares[:, None]).T @ counts - np.outer(mean, mean)


def chain_loss(data, layout, weights, row_weights):
    """The loss of a chain CRF, its gradient and its Hessian, by enumeration."""
    loss, gradient, hessian = 0.0, np.zeros(len(weights)), np.zeros((len(weights), len(weights)))
    for i, a in enumerate(row_weights):
        paths, counts = chain_labellings(data, layout, i)
        given = data.labels[data.starts[i] : data.starts[i + 1]]
        agree = ((paths == given) | (given == -1)).all(axis=1)
        for sign, chosen in ((a, np.ones(len(paths), bool)), (-a, agree)):
            log_sum, mean, covariance = chain_moments(counts, weights, chosen)
            loss, gradient, hessian = loss + sign * log_sum, gradient + sign * mean, hessian + sign * covariance
    return loss, gradient, hessian


def hidden_unit_states(data, layout, sequence):
    """All labellings of a sequence with all states of its hidden units, and the counts of weights in their energy.

    The energy is linear in the weights, so that the model is log-linear in labels and states together.
    """
    layer = layout.emission
    n_features, n_labels, n_hidden = layer.n_features, layer.n_labels, layer.n_hidden
    start, end = data.starts[sequence], data.starts[sequence + 1]
    length = end - start
    rows = np.zeros((length, n_features))
    for t in range(length):
        for p in range(data.pointers[start + t], data.pointers[start + t + 1]):
            rows[t, data.features[p]] += 1.0 if data.values is None else data.values[p]
    paths, counts = [], []
    for path in itertools.product(range(n_labels), repeat=length):
        for states in itertools.product(itertools.product((0.0, 1.0), repeat=n_hidden), repeat=length):
            w, b = np.zeros((n_features, n_hidden)), np.zeros(n_hidden)
            v, c = np.zeros((n_labels, n_hidden)), np.zeros((3, n_labels))
            for t, (label, units) in enumerate(zip(path, states, strict=True)):
                w += np.outer(rows[t], units)
                b += units
                v[label] += units
                c[0, label] += 1.0
            c[1, path[0]] += 1.0
            c[2, path[-1]] += 1.0
            steps = [
                np.array([sum(path[t - back : t + 1] == tuple(row) for t in range(back, length)) for row in each])
                for back, each in enumerate(map(np.ndarray.tolist, layout.transitions), start=1)
            ]
            paths.append(path)
            counts.append(np.concatenate([w.ravel(), b, v.ravel(), c.ravel(), *steps]))
    return np.array(paths).reshape(-1, length), np.array(counts)


def hidden_unit_loss(data, layout, weights, row_weights):
    """The loss of a hidden-unit CRF, its gradient and its Hessian, by enumeration of labels and states."""
    loss, gradient, hessian = 0.0, np.zeros(len(weights)), np.zeros((len(weights), len(weights)))
    for i, a in enumerate(row_weights):
        paths, counts = hidden_unit_states(data, layout, i)
        given = data.labels[data.starts[i] : data.starts[i + 1]]
        agree = ((paths == given) | (given == -1)).all(axis=1)
        for sign, chosen in ((a, np.ones(len(paths), bool)), (-a, agree)):
            log_sum, mean, covariance = chain_moments(counts, weights, chosen)
            loss, gradient, hessian = loss + sign * log_sum, gradient + sign * mean, hessian + sign * covariance
    return loss, gradient, hessian


def labellings(scores, transitions, transitions2=None):
    """All labellings of a sequence and their scores, from scores of tokens (T x K) and weights of steps."""
    length, n_labels = scores.shape
    paths = list(itertools.product(range(n_labels), repeat=length))
    found = []
    for path in paths:
        total = sum(scores[t, k] for t, k in enumerate(path))
        total += sum(transitions[j, k] for j, k in itertools.pairwise(path))
        if transitions2 is not None:
            total += sum(transitions2[i, j, k] for i, j, k in zip(path, path[1:], path[2:], strict=False))
        found.append(total)
    return np.array(paths), np.array(found)


def foldings(sequence, least_hairpin=0, longest_loop=30):
    """All structures of an RNA, as tuples of partners (0-based, -1 unpaired)."""
    pairs = {"AU", "UA", "CG", "GC", "GU", "UG"}

    def of(i, j):
        """All sets of pairs among i ... j - 1."""
        if j - i < 1:
            yield ()
            return
        yield from of(i + 1, j)
        for k in range(i + 1 + least_hairpin, j):
            if sequence[i] + sequence[k] in pairs:
                for inside in of(i + 1, k):
                    for rest in of(k + 1, j):
                        yield ((i, k), *inside, *rest)

    for found in of(0, len(sequence)):
        partners = [-1] * len(sequence)
        for i, j in found:
            partners[i], partners[j] = j, i
        if all(len(branches) != 1 or unpaired <= longest_loop for _, branches, unpaired in loops_of(partners)):
            yield tuple(partners)


def loops_of(partners):
    """Of each pair (i, j): the pairs directly inside, and how many letters there are unpaired."""
    for i, j in enumerate(partners):
        if j > i:
            branches, unpaired, k = [], 0, i + 1
            while k < j:
                if partners[k] > k:
                    branches.append((k, partners[k]))
                    k = partners[k]
                else:
                    unpaired += 1
                k += 1
            yield (i, j), branches, unpaired


def folding_counts(sequence, partners):
    """The features of one structure by name, as CONTRAfold counts them."""
    counts = collections.Counter()
    letter = dict(enumerate(sequence)).get  # None beyond the ends

    def add(name, *letters):
        if None not in letters and set(letters) <= set("ACGU"):
            counts[name + "".join(letters)] += 1

    def junction(i, j, mismatch):
        """A pair seen from the loop that goes on after i and comes back before j."""
        a, b, c, d = letter(i), letter(j), letter(i + 1), letter(j - 1)
        add("helix_closing_", a, b)
        if mismatch:
            add("terminal_mismatch_", a, b, c, d)
        else:
            add("dangle_left_", a, b, c)
            add("dangle_right_", a, b, d)

    def at_least(name, first, last):
        for k in range(first, last + 1):
            counts[f"{name}_at_least_{k}"] += 1

    outside, k = [], 0
    while k < len(sequence):
        if partners[k] > k:
            outside.append((k, partners[k]))
            k = partners[k]
        else:
            counts["external_unpaired"] += 1
        k += 1
    for i, j in outside:
        counts["external_paired"] += 1
        junction(j, i, mismatch=False)
    for (i, j), branches, unpaired in loops_of(partners):
        add("base_pair_", *sorted((letter(i), letter(j))))
        if not branches:
            junction(i, j, mismatch=True)
            at_least("hairpin_length", 0, min(unpaired, 30))
        elif len(branches) > 1:
            counts["multi_base"] += 1
            counts["multi_paired"] += len(branches) + 1
            counts["multi_unpaired"] += unpaired
            junction(i, j, mismatch=False)
            for p, q in branches:
                junction(q, p, mismatch=False)
        else:
            ((p, q),) = branches
            left, right = p - i - 1, j - q - 1
            if unpaired == 0:
                word = letter(i) + letter(j) + letter(p) + letter(q)
                add("helix_stacking_", *min(word, word[::-1]))
                continue
            junction(i, j, mismatch=True)
            junction(q, p, mismatch=True)
            if 0 in (left, right):
                at_least("bulge_length", 1, unpaired)
                if unpaired == 1:
                    add("bulge_0x1_nucleotides_", letter(i + 1) if left else letter(j - 1))
                continue
            at_least("internal_length", 2, unpaired)
            at_least("internal_asymmetry", 1, min(abs(left - right), 28))
            if left == right:
                at_least("internal_symmetric_length", 1, min(left, 15))
            if max(left, right) <= 4:
                counts[f"internal_explicit_{min(left, right)}_{max(left, right)}"] += 1
            if left == right == 1:
                add("internal_1x1_nucleotides_", *sorted((letter(i + 1), letter(j - 1))))
    return counts
