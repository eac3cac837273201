"""Training on several processes: DDP, or FSDP2 by block (HSDP with `replicate`), with activation checkpointing.

Gradients are means over the processes, in DDP and in FSDP alike. A loss is divided by processes.shared_divisor(), the
mean count over the processes, so that this mean is the gradient of the sum over all samples divided by their number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.engine.training.batch_norm import BatchNorm, synchronize_batchnorm
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.system import processes

METHODS = ("features", "tokens")  # of TokenModel, which use weights outside forward()
INPUT_METHODS = ("input", "qk_input")  # of a LayerEncoding, which Attention calls before its forward()


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
        """Read and check train_cfg.parallel, .recompute and .sync_batchnorm."""
        given = train_cfg.get("parallel") or "ddp"
        options = dict(type=given) if isinstance(given, str) else dict(given)
        allowed = ("type", "replicate", "shard", "offload")
        unknown = next((name for name in options if name not in allowed), None)
        if unknown is not None:
            raise ValueError(f"train_cfg.parallel: expected the keys {', '.join(allowed)}, got '{unknown}'")
        others = {name: train_cfg[name] for name in ("recompute", "sync_batchnorm") if name in train_cfg}
        settings = cls(**options, **others)
        for key, choices in (("type", ("ddp", "fsdp")), ("recompute", ("none", "blocks"))):
            if getattr(settings, key) not in choices:
                name = "parallel.type" if key == "type" else key
                expected = " or ".join(map(repr, choices))
                raise ValueError(f"train_cfg.{name}: expected {expected}, got {getattr(settings, key)!r}")
        if settings.type == "ddp" and options.keys() - {"type"}:
            raise ValueError("train_cfg.parallel: replicate, shard and offload need type='fsdp', got type='ddp'")
        return settings

    def sizes(self, count: int) -> tuple[int, int]:
        """Return (replicate, shard) for a number of processes, or raise if they do not multiply to it."""
        shard = count // max(1, self.replicate) if self.shard == -1 else self.shard
        if self.replicate < 1 or shard < 1 or self.replicate * shard != count:
            raise DataError(
                f"train_cfg.parallel: expected replicate x shard = {count} processes, got replicate={self.replicate} "
                f"and shard={self.shard}. Start another number of processes, or set shard=-1"
            )
        return self.replicate, shard


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
            block.forward = partial(_recomputed, block.forward)
    if several and settings.type == "fsdp":
        if compile:
            for block in blocks:  # not block.compile(), whose graph would contain FSDP's hooks
                block.forward = torch.compile(block.forward)
        _shard(model, blocks, settings, amp)
        return model
    if compile:
        model.backbone.compile()
    lacking = len(model.modalities) > 1  # a batch may lack some of them
    return DistributedDataParallel(model, find_unused_parameters=lacking) if several else model


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of a model: the modules in every ModuleList that is called `blocks`."""
    lists = (m for name, m in model.named_modules() if name.rpartition(".")[2] == "blocks")
    return [block for part in lists if isinstance(part, nn.ModuleList) for block in part]


def _recomputed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)


def _shard(model: TokenModel, blocks: list[nn.Module], settings: Parallel, amp: torch.dtype | None) -> None:
    """Apply FSDP2 to each block and then to the model, whose unit has all that is in no block."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import (
        CPUOffloadPolicy,
        MixedPrecisionPolicy,
        OffloadPolicy,
        fully_shard,
        register_fsdp_forward_method,
    )

    replicate, shard = settings.sizes(processes.count())
    kind = next(model.parameters()).device.type
    if replicate > 1:
        mesh = init_device_mesh(kind, (replicate, shard), mesh_dim_names=("replicate", "shard"))
    else:
        mesh = init_device_mesh(kind, (shard,), mesh_dim_names=("shard",))
    broadcast(chain(model.parameters(), model.buffers()))
    scalars = {p for p in model.parameters() if p.dim() == 0}  # FSDP cannot shard them
    for parameter in scalars:
        parameter.register_post_accumulate_grad_hook(_average_gradient)
    if model.joint_modalities:
        model.register_forward_hook(_use_all_modalities, with_kwargs=True)  # before FSDP's, so with whole weights
    common: dict[str, Any] = dict(mesh=mesh, ignored_params=scalars)
    common["offload_policy"] = CPUOffloadPolicy(pin_memory=kind != "cpu") if settings.offload else OffloadPolicy()
    exact = MixedPrecisionPolicy(cast_forward_inputs=False)  # float32 weights, for positions, heads and BatchNorm
    low = MixedPrecisionPolicy(amp, None if amp is None else torch.float32, cast_forward_inputs=False)
    for block in _unshared(model, blocks):
        for part in () if amp is None else _exact_parts(block):
            fully_shard(part, mp_policy=exact, reshard_after_forward=False, **common)
            for name in INPUT_METHODS if isinstance(part, LayerEncoding) else ():
                register_fsdp_forward_method(part, name)
        fully_shard(block, mp_policy=low, **common)
    fully_shard(model, mp_policy=exact, **common)
    _register_methods(model)
    # FSDP moves tensors among the arguments to its device, but data samples stay on the CPU
    model.register_forward_pre_hook(_hide_samples, prepend=True, with_kwargs=True)
    model.register_forward_pre_hook(_show_samples, with_kwargs=True)


def _register_methods(model: nn.Module) -> None:
    """Let `features` and `tokens` gather the weights that they use, unless forward() calls them, which has done so."""
    from torch.distributed.fsdp import register_fsdp_forward_method

    inside: list[str] = []

    def register(name: str) -> None:
        plain = getattr(model, name)
        register_fsdp_forward_method(model, name)
        gathering = getattr(model, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if inside:
                return plain(*args, **kwargs)
            inside.append(name)
            try:
                return gathering(*args, **kwargs)
            finally:
                inside.pop()

        setattr(model, name, call)

    for name in METHODS:
        register(name)
    model.register_forward_pre_hook(lambda *_: inside.append("forward"))
    model.register_forward_hook(lambda *_: inside.pop() and None, always_call=True)


def _unshared(model: nn.Module, blocks: list[nn.Module]) -> list[nn.Module]:
    """Return the blocks that share no parameter with another part; FSDP needs shared ones in one unit, the model's."""
    inside = {module: number for number, block in enumerate(blocks) for module in block.modules()}
    owners = defaultdict(set)
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[parameter].add(inside.get(module))
    return [block for block in blocks if all(len(owners[parameter]) == 1 for parameter in block.parameters())]


def _exact_parts(block: nn.Module) -> list[nn.Module]:
    """Return the modules of a block that compute in float32: BatchNorm and the outermost encodings with weights."""
    found: list[nn.Module] = []
    for module in block.modules():
        inner = any(module in set(part.modules()) for part in found)
        if isinstance(module, (BatchNorm, LayerEncoding)) and not inner and any(p.dim() for p in module.parameters()):
            found.append(module)
    return found


def broadcast(tensors: Iterable[Tensor]) -> None:
    """Give all processes the values of rank 0; under FSDP, call it for buffers before evaluation and checkpoints."""
    if processes.is_distributed():
        for tensor in tensors:
            dist.broadcast(tensor.detach(), 0)


def _average_gradient(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.copy_(processes.mean(parameter.grad))


def _use_all_modalities(model: Any, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
    """Add 0 to the loss for modalities that only other processes have: FSDP needs gradients of the same weights."""
    if kwargs.get("mode") != "loss":
        return output
    inputs = args[0] if args else kwargs["inputs"]
    present = {name for name, value in inputs.items() if isinstance(value, Tensor) or any(v is not None for v in value)}
    missing = set().union(*processes.gather_objects(present)) & set(model.modalities) - present
    zero = sum(p.flatten()[:0].sum() for name in sorted(missing) for p in model.modalities[name].parameters())
    return output if not missing else output | dict(loss=output["loss"] + zero)


class _Hidden:
    def __init__(self, samples: Any) -> None:
        self.samples = samples


def _hide_samples(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    return args, {name: _Hidden(value) if name == "data_samples" else value for name, value in kwargs.items()}


def _show_samples(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    return args, {name: value.samples if isinstance(value, _Hidden) else value for name, value in kwargs.items()}


@torch.no_grad()
def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Clip the norm of all gradients, shards of all processes included; return it without waiting for the device."""
    parameters = [p for p in parameters if p.grad is not None]
    gradients = [p.grad for p in parameters if p.grad is not None]
    sharded = [g for g in gradients if processes.is_sharded(g)]
    if not sharded:
        return nn.utils.clip_grad_norm_(parameters, max_norm)
    whole = [g for g in gradients if not processes.is_sharded(g)]
    squares = nn.utils.get_total_norm([processes.local(g) for g in sharded]).square()
    mesh: Any = sharded[0].device_mesh  # pyright: ignore[reportAttributeAccessIssue]
    dist.all_reduce(squares, group=mesh.get_group(mesh.ndim - 1))
    norm = (squares + nn.utils.get_total_norm(whole).square()).sqrt() if whole else squares.sqrt()
    torch._foreach_mul_([processes.local(g) for g in gradients], (max_norm / (norm + 1e-6)).clamp(max=1))
    return norm


def share_batch(model: nn.Module, batch: dict[str, Any]) -> dict[str, Any]:
    """Return the batch, or that of another process if this one has no samples: under FSDP all must run the model."""
    if not any(processes.is_sharded(p) for p in model.parameters()):
        return batch
    counts = processes.gather_objects(len(batch["data_samples"]))
    if all(counts) or not any(counts):
        return batch
    source = next(rank for rank, count in enumerate(counts) if count)
    shared = processes.gather_objects(batch if processes.rank() == source else None)[source]
    return batch if batch["data_samples"] else shared
