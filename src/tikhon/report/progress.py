"""How long work tells how far it is."""

from typing import Protocol


class Progress(Protocol):
    """Told once how much there is to do, then of each part done."""

    def start(self, total: int, description: str) -> None: ...

    def advance(self, n: int, description: str) -> None: ...


class Silent:
    """Progress that nobody watches."""

    def start(self, total: int, description: str) -> None:
        pass

    def advance(self, n: int, description: str) -> None:
        pass
