"""scikit-learn's callbacks (1.9 and later): a task for each trial and one for the final fit. Without them, nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["TrialCallbacks", "with_callbacks"]

try:
    from sklearn.callback import with_callbacks
except ImportError:  # before 1.9

    def with_callbacks(method: Any) -> Any:
        return method


class TrialCallbacks:
    """Tells the callbacks of a search, if it has any, about its trials."""

    def __init__(self, search: Any, n_trials: int, data: dict[str, Any]) -> None:
        self._search, self._data, self._root = search, data, None
        if hasattr(search, "_init_callback_context"):
            self._root = search._init_callback_context(max_subtasks=n_trials + (search.refit is not False))
            self._root.call_on_fit_task_begin(estimator=search, **data)

    def trial(self) -> None:
        """A trial is complete: its task begins and ends here, since workers report it then."""
        if self._root is not None:
            context = self._root.subcontext(task_name="trial")
            context.call_on_fit_task_begin(estimator=self._search, **self._data)
            context.call_on_fit_task_end(estimator=self._search, **self._data)

    @contextmanager
    def final_fit(self, estimator: Any) -> Iterator[None]:
        if self._root is None:
            yield
            return
        context = self._root.subcontext(task_name="refit-with-best-params")
        with context.propagate_callback_context(estimator):
            context.call_on_fit_task_begin(estimator=self._search, **self._data)
            yield
            context.call_on_fit_task_end(estimator=self._search, **self._data)

    def end(self) -> None:
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._search, **self._data)
