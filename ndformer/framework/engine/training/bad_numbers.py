"""The error for a training step whose loss or gradients are not finite."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from ndformer.framework.engine.training import checkpoint, nonfinite
from ndformer.framework.engine.training.runner import Runner
from ndformer.framework.engine.training.seeding import seed_step
from ndformer.framework.errors import BadNumbers


@contextlib.contextmanager
def explained(trainer: Runner, batch: dict[str, Any]) -> Iterator[None]:
    """Raise BadNumbers, with the layer, the samples and a remedy, for values that are not finite in a training step."""
    try:
        yield
    except FloatingPointError as error:
        raise _bad_numbers(trainer, str(error), batch) from None
    except RuntimeError as error:
        if not torch.is_anomaly_enabled() or "returned nan values" not in str(error):
            raise
        raise _bad_numbers(trainer, str(error).splitlines()[0], batch) from None


def _bad_numbers(trainer: Runner, problem: str, batch: dict[str, Any]) -> BadNumbers:
    seed_step(trainer.cfg.seed, trainer.iter)
    cause = nonfinite.origin(trainer.model, batch, lambda: trainer.loss(batch, trainer.model))
    checkpoints = (trainer.folder / name for name in (checkpoint.LAST, checkpoint.BEST))
    last = next((path for path in checkpoints if checkpoint.exists(path)), None)
    return BadNumbers(
        f"step {trainer.iter + 1} (epoch {trainer.epoch + 1}): {problem}; {cause}. "
        f"The batch was {nonfinite.sample_names(batch)}. "
        + (f"The last good checkpoint is {last}" if last else "There is no checkpoint yet")
        + "; a lower lr, a longer warmup or clip_grad may help",
        "--detect-anomaly names the operation",
    )
