"""A straightforward PyTorch version of a hidden-unit CRF of order 1: batches of words, softplus, automatic derivatives."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import MissingExtra
from tikhon.objective import Matrix, Vector


class TorchChain:
    """The loss and gradient over words of letters, ``chunk`` words at a time; all in double precision."""

    def __init__(self, X: list[Matrix], y: list[NDArray[Any]], *, n_labels: int, n_threads: int) -> None:
        try:
            torch: Any = importlib.import_module("torch")  # a peer, which need not be there
        except ImportError as error:
            raise MissingExtra("the comparison with PyTorch needs torch: pip install torch") from error
        torch.set_num_threads(n_threads)
        self._torch, self._n_labels = torch, n_labels
        order = np.argsort([len(x) for x in X], kind="stable")  # words of a chunk have nearly the same length
        self._X, self._y = [X[i] for i in order], [np.asarray(y[i]) for i in order]

    def loss_gradient(
        self, parts: tuple[Matrix, Vector, Matrix, Matrix], steps: Matrix, chunk: int
    ) -> tuple[float, list[Any]]:
        """``parts`` are those of ``HiddenLayer.parts``."""
        torch = self._torch
        weights = [torch.tensor(np.ascontiguousarray(part), requires_grad=True) for part in (*parts, steps)]
        total = 0.0
        for first in range(0, len(self._X), chunk):
            loss = self._loss(weights, self._X[first : first + chunk], self._y[first : first + chunk])
            loss.backward()
            total += float(loss.detach())
        return total, [weight.grad.numpy() for weight in weights]

    def _loss(self, weights: list[Any], X: list[Matrix], y: list[NDArray[Any]]) -> Any:
        torch, (w, b, v, c, steps) = self._torch, weights
        lengths, n, longest = [len(x) for x in X], len(X), max(len(x) for x in X)
        letters = torch.from_numpy(np.concatenate(X))
        inputs = letters @ w + b
        found = torch.nn.functional.softplus(inputs[:, None, :] + v).sum(dim=2) + c[0]
        places = [(i, t) for i, length in enumerate(lengths) for t in range(length)]
        rows, columns = (torch.tensor(list(each)) for each in zip(*places, strict=True))
        scores = torch.zeros(n, longest, self._n_labels, dtype=torch.float64).index_put((rows, columns), found)
        last = torch.tensor(lengths) - 1
        all_words = torch.arange(n)
        scores = scores.index_put((all_words, torch.zeros(n, dtype=torch.long)), c[1].expand(n, -1), accumulate=True)
        scores = scores.index_put((all_words, last), c[2].expand(n, -1), accumulate=True)
        labels = torch.zeros(n, longest, dtype=torch.long)
        labels[rows, columns] = torch.from_numpy(np.concatenate(y).astype(np.int64))
        inside = torch.arange(longest)[None, :] <= last[:, None]
        own = (scores.gather(2, labels[:, :, None])[:, :, 0] * inside).sum()
        own = own + (steps[labels[:, :-1], labels[:, 1:]] * inside[:, 1:]).sum()
        alpha = scores[:, 0]
        for t in range(1, longest):
            after = torch.logsumexp(alpha[:, :, None] + steps, dim=1) + scores[:, t]
            alpha = torch.where(inside[:, t, None], after, alpha)
        return torch.logsumexp(alpha, dim=1).sum() - own
