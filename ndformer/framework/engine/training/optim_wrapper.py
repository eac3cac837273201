"""An optimizer with gradient accumulation, gradient clipping and mixed precision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.engine.training.parallel import clip_grad_norm


class OptimWrapper:
    """An optimizer with gradient accumulation, clipping and AMP on any device, with the interface of mmengine's.

    `epoch` is the number of batches in an epoch. Its last batch always ends an optimizer step, so that a checkpoint
    between two epochs needs no pending gradients.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        device: str,
        epoch: int,
        accumulate: int = 1,
        clip_grad: float | None = None,
        amp: torch.dtype | None = None,
    ) -> None:
        self.optimizer, self.device, self.epoch = optimizer, device, epoch
        self.accumulate, self.clip_grad, self.amp = accumulate, clip_grad, amp
        self.scaler = torch.amp.GradScaler(device, enabled=amp == torch.float16)  # pyright: ignore[reportPrivateImportUsage]
        self.batches = 0  # backward passes so far
        self.updates = 0  # optimizer steps so far, including skipped ones
        self.skipped = 0  # latest steps in a row that fp16 overflow skipped
        self.frozen: Sequence[nn.Parameter] = ()  # parameters that a step does not change

    @contextlib.contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Return a context for the forward pass: AMP, and no gradient synchronization before the last batch."""
        no_sync: Any = getattr(model, "no_sync", contextlib.nullcontext)  # DistributedDataParallel's
        sync: Any = contextlib.nullcontext if self._ends_step(self.batches + 1) else no_sync
        with sync(), torch.autocast(self.device, self.amp, enabled=self.amp is not None):
            yield

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of this batch's share of the optimizer step."""
        within, remainder = self.batches % self.epoch, self.epoch % self.accumulate
        share = remainder if within >= self.epoch - remainder else self.accumulate
        self.scaler.scale(loss / share).backward()
        self.batches += 1

    def should_update(self) -> bool:
        """Return whether the batches so far complete an optimizer step."""
        return self._ends_step(self.batches)

    def _ends_step(self, batches: int) -> bool:
        within = (batches - 1) % self.epoch + 1
        return within % self.accumulate == 0 or within == self.epoch

    def step(self) -> None:
        for parameter in self.frozen:
            parameter.grad = None  # then no optimizer updates or decays it
        if self.clip_grad is not None:
            self.scaler.unscale_(self.optimizer)
            clip_grad_norm(self.parameters(), self.clip_grad)
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.skipped = self.skipped + 1 if self.scaler.get_scale() < before else 0
        self.updates += 1

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def update_params(self, loss: Tensor) -> None:
        """Run the backward pass and, when it completes an optimizer step, that step; for mmengine's train_step()."""
        self.backward(loss)
        if self.should_update():
            self.step()
            self.zero_grad()

    def parameters(self) -> Iterator[Tensor]:
        return (p for group in self.param_groups for p in group["params"])

    def gradients(self) -> Iterator[Tensor]:
        return (p.grad for p in self.parameters() if p.grad is not None)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    def get_lr(self) -> dict[str, list[float]]:
        """Return the learning rates of the parameter groups."""
        return dict(lr=[group["lr"] for group in self.param_groups])
