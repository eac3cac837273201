"""The state of a run, as the parts of the training loop and hooks of mmengine read it."""

from __future__ import annotations

import contextlib
import importlib
import logging
import random
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn

from ndformer.framework.engine.training import checkpoint, nonfinite
from ndformer.framework.engine.training.console import Console
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.history import History
from ndformer.framework.engine.training.hooks import Hooks
from ndformer.framework.engine.training.loading import Loader
from ndformer.framework.engine.training.optim_wrapper import OptimWrapper
from ndformer.framework.engine.training.owner import Ownership
from ndformer.framework.engine.training.progress import CheckpointTimer, Progress
from ndformer.framework.engine.training.schedules import LearningRate
from ndformer.framework.errors import BadNumbers
from ndformer.framework.model import TokenModel
from ndformer.framework.system import processes


class Runner:
    """The state of a run, with the attributes that mmengine documents for the runner of hooks."""

    cfg: Config
    config_text: str
    model: TokenModel
    loaders: Mapping[str, Loader]
    data: dict[str, Any]  # fingerprints of the data, by split
    optim_wrapper: OptimWrapper
    learning_rate: LearningRate
    ema: EMA | None
    saver: Any  # writes checkpoints as folders, if the model is sharded
    hooks: Hooks
    history: History
    progress: Progress
    timer: CheckpointTimer
    console: Console
    ownership: Ownership
    folder: Path
    device: torch.device
    experiment_name: str
    max_epochs: int
    batches: int  # of an epoch
    epoch = iter = batch = 0  # finished epochs, finished batches, and those of the current epoch
    seconds = 0.0  # of finished epochs
    last_is_damaged = False  # the run was resumed from previous.pth
    allow_config_change: bool
    allow_data_change: bool

    def loss(self, batch: dict[str, Any], model: nn.Module) -> Tensor:
        """Run the forward pass of `model`, which is the model or its parallel form."""
        with self.optim_wrapper.optim_context(model):
            losses = model(**self.model.to_device(batch), mode="loss")
        return self.model.total(losses)

    @contextlib.contextmanager
    def explained(self, batch: dict[str, Any]) -> Iterator[None]:
        """Raise BadNumbers, with layer, samples and a remedy, for values that are not finite in a training step."""
        try:
            yield
        except FloatingPointError as error:
            raise self._bad_numbers(str(error), batch) from None
        except RuntimeError as error:
            if not torch.is_anomaly_enabled() or "returned nan values" not in str(error):
                raise
            raise self._bad_numbers(str(error).splitlines()[0], batch) from None

    def _bad_numbers(self, problem: str, batch: dict[str, Any]) -> BadNumbers:
        seed_step(self.cfg.seed, self.iter)
        cause = nonfinite.origin(self.model, batch, lambda: self.loss(batch, self.model))
        checkpoints = (self.folder / name for name in (checkpoint.LAST, checkpoint.BEST))
        last = next((path for path in checkpoints if checkpoint.exists(path)), None)
        return BadNumbers(
            f"step {self.iter + 1} (epoch {self.epoch + 1}): {problem}; {cause}. "
            f"The batch was {nonfinite.sample_names(batch)}. "
            + (f"The last good checkpoint is {last}" if last else "There is no checkpoint yet")
            + "; a lower lr, a longer warmup or clip_grad may help",
            "--detect-anomaly names the operation",
        )

    def call_hook(self, point: str, **arguments: Any) -> None:
        """Call the method `point`, such as 'before_train_epoch', of all hooks that have it."""
        for hook in self.hooks:
            if hasattr(hook, point):
                getattr(hook, point)(self, **arguments)

    @cached_property
    def logger(self) -> logging.Logger:
        """A logger that prints to the screen and to train.log."""
        logger = logging.Logger(self.experiment_name, logging.INFO)  # unknown to logging.getLogger()
        logger.addHandler(_ConsoleHandler(self.console))
        return logger

    @cached_property
    def message_hub(self) -> Any:
        """mmengine's MessageHub of this run."""
        hub = importlib.import_module("mmengine.logging").MessageHub
        return hub.get_instance(self.experiment_name)

    work_dir = log_dir = property(lambda self: str(self.folder))
    seed = property(lambda self: self.cfg.seed)
    max_iters = property(lambda self: self.max_epochs * self.batches)
    train_loop = property(lambda self: self)  # hooks set its `stop_training`
    dataloader = train_dataloader = property(lambda self: self.loaders["train"])
    val_dataloader = property(lambda self: self.loaders["val"])
    test_dataloader = property(lambda self: self.loaders["test"])
    rank = property(lambda self: processes.rank())
    world_size = property(lambda self: processes.count())


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch; transforms of samples have generators of their own."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (for code of users)
    torch.manual_seed(seed)


def seed_step(seed: int, iteration: int) -> None:
    """Seed torch from the config's seed and the step's number, so that a resumed run draws the same numbers."""
    state = np.random.SeedSequence((seed, iteration)).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0] >> np.uint64(1)))


class _ConsoleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(self.format(record))
