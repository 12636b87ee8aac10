"""Progress reporting of long computations."""

from typing import Protocol


class Progress(Protocol):
    """``start`` is called with the total amount of work, then ``advance`` for each part done."""

    def start(self, total: int, description: str) -> None: ...

    def advance(self, n: int, description: str) -> None: ...


class Silent:
    """Progress that is not shown."""

    def start(self, total: int, description: str) -> None:
        pass

    def advance(self, n: int, description: str) -> None:
        pass
