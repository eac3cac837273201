"""mmengine's Runner without its log and hooks, and an optimizer wrapper with AMP on any device."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.engine.training.mmengine_fixes import MMLogger, OptimWrapper, Runner, revert_sync_batchnorm


class QuietRunner(Runner):
    """mmengine's Runner without its default hooks, of which `runtime_info` waits for the loss in each step."""

    def __init__(self, **kwargs: Any) -> None:
        off: Any = dict.fromkeys(("runtime_info", "timer", "logger", "param_scheduler", "checkpoint"))
        super().__init__(default_hooks=off, **kwargs)
        with contextlib.suppress(OSError):  # removes mmengine's log folder if it is empty
            os.rmdir(self._log_dir)

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Return a logger that writes no file."""
        return MMLogger.get_instance(self._experiment_name, log_level="ERROR")

    def _log_env(self, env_cfg: dict[str, Any]) -> None:
        pass

    def _init_model_weights(self) -> None:
        pass  # models initialize their weights themselves

    def wrap_model(self, model_wrapper_cfg: Any, model: nn.Module) -> nn.Module:
        """Return the model on its device; mmengine would move it to another one."""
        return revert_sync_batchnorm(model)

    def dump_config(self) -> None:
        pass  # the trainer writes the config


class AmpWrapper(OptimWrapper):
    """An OptimWrapper with mixed precision (AMP): bf16 or fp16 on any device; fp16 losses are scaled."""

    def __init__(self, dtype: torch.dtype | None, device: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dtype, self.device = dtype, device
        self.scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)  # pyright: ignore[reportPrivateImportUsage]
        self.updates = 0  # optimizer steps so far, including skipped ones
        self.skipped = 0  # latest steps in a row that fp16 overflow skipped
        self.frozen: Sequence[nn.Parameter] = ()  # parameters that a step does not change
        self.epoch = 0  # batches in an epoch: its last one ends a step, so that a checkpoint has no pending gradients

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        with super().optim_context(model), torch.autocast(self.device, self.dtype, enabled=self.dtype is not None):
            yield

    def should_update(self) -> bool:
        return super().should_update() if not self.epoch else self._ends_step(self._inner_count)

    def should_sync(self) -> bool:
        return super().should_sync() if not self.epoch else self._ends_step(self._inner_count + 1)

    def _ends_step(self, count: int) -> bool:
        within = (count - 1) % self.epoch + 1
        return within % self._accumulative_counts == 0 or within == self.epoch

    def scale_loss(self, loss: Tensor) -> Tensor:
        if not self.epoch:
            return super().scale_loss(loss)
        k = self._accumulative_counts
        remainder = self.epoch % k
        last = self._inner_count % self.epoch >= self.epoch - remainder
        return loss / (remainder if last else k)

    def backward(self, loss: Tensor, **kwargs: Any) -> None:
        self.scaler.scale(loss).backward(**kwargs)
        self._inner_count += 1

    def _clip_grad(self) -> None:
        """Clip the gradients' norm without reading it, which would wait for the device."""
        options: dict[str, Any] = self.clip_grad_kwargs or {}
        torch.nn.utils.clip_grad_norm_([p for p in self.parameters() if p.grad is not None], **options)

    def parameters(self) -> Iterator[Tensor]:
        return (p for group in self.optimizer.param_groups for p in group["params"])

    def gradients(self) -> Iterator[Tensor]:
        return (p.grad for p in self.parameters() if p.grad is not None)

    def step(self, **kwargs: Any) -> None:
        for parameter in self.frozen:
            parameter.grad = None  # then no optimizer updates or decays it
        if self.clip_grad_kwargs:
            self.scaler.unscale_(self.optimizer)
            self._clip_grad()
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer, **kwargs)
        self.scaler.update()
        self.skipped = self.skipped + 1 if self.scaler.get_scale() < before else 0
        self.updates += 1
