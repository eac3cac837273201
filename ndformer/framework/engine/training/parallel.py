"""Training on several processes: DDP, or FSDP2 by block (HSDP with `replicate`), with activation checkpointing.

Gradients are means over the processes, in DDP and in FSDP alike. A loss is divided by processes.shared_divisor(), the
mean count over the processes, so that this mean is the gradient of the sum over all samples divided by their number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from ndformer.framework.engine.training.batch_norm import BatchNorm, synchronize_batchnorm, unchanged_statistics
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.system import processes


@dataclass(frozen=True)
class Parallel:
    """The keys of train_cfg that say how processes share a training."""

    type: str = "ddp"  # 'ddp': every process has all weights; 'fsdp': each has a shard of them
    replicate: int = 1  # groups of processes, each with all shards (HSDP)
    shard: int = -1  # processes in a group; -1: all there are
    offload: bool = False  # keep the shards in CPU memory
    recompute: str = "none"  # 'blocks': compute blocks again in the backward pass, to save memory
    sync_batchnorm: bool = True  # batch statistics over all processes

    @classmethod
    def from_config(cls, train_cfg: Mapping[str, Any]) -> Parallel:
        """Read train_cfg.parallel, .recompute and .sync_batchnorm, which the config's checks have accepted."""
        parallel = train_cfg.get("parallel") or "ddp"
        options = dict(type=parallel) if isinstance(parallel, str) else dict(parallel)
        return cls(**options, **{n: train_cfg[n] for n in ("recompute", "sync_batchnorm") if n in train_cfg})

    def sizes(self, count: int) -> tuple[int, int]:
        """Return (replicate, shard) for a number of processes, or raise if they do not multiply to it."""
        shard = count // max(1, self.replicate) if self.shard == -1 else self.shard
        if self.replicate < 1 or shard < 1 or self.replicate * shard != count:
            raise DataError(
                f"train_cfg.parallel: expected replicate x shard = {count} processes, got replicate={self.replicate} "
                f"and shard={self.shard}. Start another number of processes, or set shard=-1"
            )
        return self.replicate, shard


@runtime_checkable
class Skipping(Protocol):
    """A backbone whose forward pass may leave parameters out, which then have no gradient in that step."""

    skips_parameters: ClassVar[bool]


def parallelize(
    model: TokenModel, settings: Parallel, amp: torch.dtype | None = None, compile: bool = False
) -> nn.Module:
    """Prepare a model, on its device, for this number of processes; return what to call in training.

    That is DistributedDataParallel around the model, or the model itself. Under FSDP its parameters become DTensors:
    build the optimizer and the EMA after this call. `amp` is the dtype of autocast.
    """
    several = processes.is_distributed()
    blocks = find_blocks(model)
    if several and settings.sync_batchnorm:
        synchronize_batchnorm(model)
    if settings.recompute == "blocks":
        if not blocks:
            raise ValueError(f"recompute='blocks' needs a ModuleList `blocks`, got {type(model.backbone).__name__}")
        for block in blocks:
            norms = [module for module in block.modules() if isinstance(module, BatchNorm)]
            recomputed = partial(_recompute, block.forward, norms)
            # torch.compile cannot trace a checkpoint with a context, but what it calls
            block.forward = torch.compiler.disable(recomputed, recursive=False) if norms and compile else recomputed
    if several and settings.type == "fsdp":
        if compile:
            for block in blocks:  # not block.compile(), whose graph would contain FSDP's hooks
                block.forward = torch.compile(block.forward)
        from ndformer.framework.engine.training import fsdp  # imports torch.distributed.fsdp

        fsdp.shard(model, blocks, settings.sizes(processes.count()), settings.offload, amp)
        return model
    if compile:
        model.backbone.compile()
    if not several:
        return model
    # DDP waits for a gradient of each parameter, and one without elements, such as no class token, has none
    empty = [name for name, parameter in model.named_parameters() if not parameter.numel()]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, empty)
    lacking = len(model.modalities) > 1 or isinstance(model.backbone, Skipping)  # a batch may lack a modality
    return DistributedDataParallel(model, find_unused_parameters=lacking)


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of a model: the modules in every ModuleList that is called `blocks`."""
    lists = (m for name, m in model.named_modules() if name.rpartition(".")[2] == "blocks")
    return [block for part in lists if isinstance(part, nn.ModuleList) for block in part]


def _recompute(forward: Callable[..., Any], norms: list[nn.Module], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    if norms:
        kwargs["context_fn"] = lambda: (contextlib.nullcontext(), unchanged_statistics(norms))
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)


@torch.no_grad()
def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Clip the norm of all gradients, shards of all processes included; return it without waiting for the device."""
    parameters = [p for p in parameters if p.grad is not None]
    gradients = [p.grad for p in parameters if p.grad is not None]
    sharded = [g for g in gradients if processes.is_sharded(g)]
    if not sharded:
        return nn.utils.clip_grad_norm_(parameters, max_norm)
    unsharded = [g for g in gradients if not processes.is_sharded(g)]
    squares = nn.utils.get_total_norm([processes.local(g) for g in sharded]).square()
    mesh: Any = sharded[0].device_mesh  # pyright: ignore[reportAttributeAccessIssue]
    dist.all_reduce(squares, group=mesh.get_group(mesh.ndim - 1))
    norm = (squares + nn.utils.get_total_norm(unsharded).square()).sqrt() if unsharded else squares.sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1)
    torch._foreach_mul_([processes.local(g) for g in gradients], scale)  # pyright: ignore[reportPrivateImportUsage]
    return norm
