"""What several tests of the framework look with."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor


def relative(ours: Tensor, exact: Tensor) -> float:
    return ((ours.double() - exact.double()).abs().max() / max(1.0, exact.abs().max().item())).item()


def spy(monkeypatch: pytest.MonkeyPatch, holder: Any, name: str) -> list[str]:
    called: list[str] = []
    inner: Callable[..., Any] = holder[name] if isinstance(holder, dict) else getattr(holder, name)

    def outer(*args: Any, **kwargs: Any) -> Any:
        called.append(name)
        return inner(*args, **kwargs)

    if isinstance(holder, dict):
        monkeypatch.setitem(holder, name, outer)
    else:
        monkeypatch.setattr(holder, name, outer)
    return called


class Drawn:
    """Samples that answers are about, drawn by a function of their numbers; what is written is noted."""

    def __init__(self, picture: Any) -> None:
        self.picture, self.original, self.written = picture, picture, []

    def write_labelled(self, stem: Any, i: int, labels: Any) -> None:
        self.written.append((stem, i, labels.tolist()))
