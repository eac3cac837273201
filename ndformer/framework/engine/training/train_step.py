"""One training step: loss, gradients, the check that both are finite, and the optimizer step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ndformer.framework.engine.training import checkpoint, nonfinite
from ndformer.framework.engine.training.preemption import Preemption
from ndformer.framework.engine.training.runner import AmpWrapper
from ndformer.framework.errors import BadNumbers
from ndformer.framework.model import TokenModel
from ndformer.framework.system import processes

MAX_SKIPPED = 50  # fp16 steps skipped in a row; after so many, a lower loss scale will not help either


class TrainStep:
    """A forward and backward pass over a batch, and the optimizer step when enough batches are accumulated.

    `parallel` is `model`, or `model` inside DistributedDataParallel. `folder` is named in errors, with its checkpoint.
    """

    def __init__(
        self,
        model: TokenModel,
        parallel: nn.Module,
        wrapper: AmpWrapper,
        preemption: Preemption,
        seed: int,
        folder: Path,
    ) -> None:
        self.model, self.parallel, self.wrapper, self.preemption = model, parallel, wrapper, preemption
        self.seed, self.folder = seed, folder
        self.stop_requested = False  # a process received a signal to stop, and all processes know it

    def __call__(self, batch: dict[str, Any], iteration: int, epoch: int) -> Tensor:
        """Return the mean loss over all processes, as a CPU tensor."""
        wrapper = self.wrapper
        self._reseed(iteration)
        try:
            loss = self._loss(batch, self.parallel)
            stop = loss.new_full((), float(bool(self.preemption.signal_name)), dtype=torch.float32)
            mean, stop = processes.mean(torch.stack([loss.detach().float(), stop]))  # NaN in one process is NaN in all
            wrapper.backward(wrapper.scale_loss(loss))
            mean = self._sync_stats(mean, stop)
            if wrapper.should_update():
                wrapper.step()
                wrapper.zero_grad()
            if wrapper.skipped >= MAX_SKIPPED:
                raise FloatingPointError(
                    f"{MAX_SKIPPED} steps in a row were skipped, since their gradients are not finite"
                )
        except FloatingPointError as error:
            raise self._bad_numbers(str(error), batch, iteration, epoch) from None
        except RuntimeError as error:
            if not torch.is_anomaly_enabled() or "returned nan values" not in str(error):
                raise
            raise self._bad_numbers(str(error).splitlines()[0], batch, iteration, epoch) from None
        return mean

    def _sync_stats(self, loss: Tensor, stop: Tensor) -> Tensor:
        """Read loss, largest gradient and stop flag in the step's only device synchronization.

        Returns the loss as a CPU tensor. It runs before the weights change.
        In fp16 the gradient scaler checks the gradients instead.
        """
        scaled = self.wrapper.scaler.is_enabled()
        gradient = loss if scaled else nonfinite.largest(self.wrapper.gradients())
        stats = torch.stack([stop, loss, gradient.to(loss)]).cpu()
        stop_flag, *sizes = stats.tolist()
        self.stop_requested = bool(stop_flag)
        for name, size in zip(("loss", "gradient"), sizes):
            if not scaled and not math.isfinite(size):
                raise FloatingPointError(f"the {name} is not finite")
        return stats[1]

    def _reseed(self, iteration: int) -> None:
        """Seed torch from the config's seed and the step's number, so that a resumed run draws the same numbers."""
        state = np.random.SeedSequence((self.seed, iteration)).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0] >> np.uint64(1)))

    def _loss(self, batch: dict[str, Any], model: nn.Module) -> Tensor:
        with self.wrapper.optim_context(model):
            losses = model(**self.model.to_device(batch), mode="loss")
        return self.model.total(losses)

    def _bad_numbers(self, problem: str, batch: dict[str, Any], iteration: int, epoch: int) -> BadNumbers:
        self._reseed(iteration)
        origin = nonfinite.origin(self.model, batch, lambda: self._loss(batch, self.model))
        last = next((name for name in (checkpoint.LAST, checkpoint.BEST) if (self.folder / name).is_file()), None)
        return BadNumbers(
            f"step {iteration + 1} (epoch {epoch + 1}): {problem}; {origin}. "
            f"The batch was {nonfinite.sample_names(batch)}. "
            + (f"The last good checkpoint is {self.folder / last}" if last else "There is no checkpoint yet")
            + "; a lower lr, a longer warmup or clip_grad may help",
            "--detect-anomaly names the operation",
        )
