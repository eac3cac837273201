"""Short runs that end normally or are killed, and damage to files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mmengine.config import Config

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.trainer import Trainer
from tests.soak.tiny import config


class Killed(BaseException):
    pass


def killed(*_: Any) -> None:
    raise Killed


def full(*_: Any) -> Any:
    raise OSError(28, "No space left on device")


class Malicious:
    """An object whose pickle creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.touch, (self.target,)


def short(epochs: int = 2, **train_cfg: Any) -> Config:
    cfg = config(batch=8)
    cfg.train_cfg.update(max_epochs=epochs, **train_cfg)
    return cfg


def stop(folder: Path, cfg: Config, at: int, action: Callable[[], object]) -> None:
    """Train; call `action` after the optimizer step number `at`, before its checkpoint is written."""
    end_step, steps = Trainer.end_step, []

    def stopping(self: Trainer) -> None:
        steps.append(0)
        if len(steps) == at:
            action()
        end_step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "end_step", stopping)
        train(cfg, folder, overwrite=True)


def kill(folder: Path, cfg: Config, at: int) -> None:
    """Train, and end as a killed process does after the optimizer step number `at`."""
    with pytest.raises(Killed):
        stop(folder, cfg, at, killed)


def flip(path: Path, at: int | None = None) -> None:
    """Flip a bit of the byte at this place, by default in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 1
    path.write_bytes(content)
