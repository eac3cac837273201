"""BatchNorm with statistics over the batches of all processes, on any device and for subclasses of BatchNorm."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce  # whose gradient is the sum over processes

from ndformer.framework.model import TokenModel
from ndformer.framework.system import processes

BatchNorm: Any = nn.modules.batchnorm._BatchNorm


def synchronize_batchnorm(model: TokenModel) -> None:
    """Make every BatchNorm of a model compute its statistics over all processes.

    torch's convert_sync_batchnorm() replaces modules, which loses the forward() of subclasses (PTv3's Norm); here a
    module gets a class that inherits from both, so that super().forward() of a subclass is the synchronized one.

    In a step in which a process lacks a modality, its adapter and the backbone have statistics of each process, because
    a process would wait for ever for the layers that another one skips. Checkpoints have the statistics of rank 0.
    """
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    for module in model.modules():
        if isinstance(module, BatchNorm):
            kind: Any = type(module)
            module.process_group = None  # pyright: ignore[reportArgumentType] (all processes)
            module.over_processes = True  # pyright: ignore[reportArgumentType]
            module.__class__ = type(f"Sync{kind.__name__}", (kind, _SyncOnCPU if on_cpu else _SyncOnGPU), {})
    parts = dict(model.modalities.items()) | dict(backbone=model.backbone)
    norms = {name: [m for m in part.modules() if isinstance(m, BatchNorm)] for name, part in parts.items()}
    if model.joint_modalities and any(norms.values()):
        model.register_forward_pre_hook(partial(_compare_modalities, norms), with_kwargs=True)


def _compare_modalities(norms: dict[str, list[Any]], model: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
    if kwargs.get("mode") != "loss":
        return
    inputs = args[0] if args else kwargs["inputs"]
    present = {n for n, value in inputs.items() if isinstance(value, Tensor) or any(v is not None for v in value)}
    everywhere = processes.gather_objects(present)
    for name, modules in norms.items():
        for norm in modules:
            norm.over_processes = all(other == present if name == "backbone" else name in other for other in everywhere)


class _SyncOnGPU(nn.SyncBatchNorm):
    over_processes: bool

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) if self.over_processes else BatchNorm.forward(self, input)


class _SyncOnCPU(BatchNorm):
    """torch's SyncBatchNorm, which needs a GPU, for CPUs."""

    over_processes: bool

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and self.over_processes):
            return super().forward(input)
        self._check_input_dim(input)
        exact = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
        axes = [axis for axis in range(input.dim()) if axis != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        count = all_reduce(exact.new_full((), input.numel() // input.shape[1]))
        mean = all_reduce(exact.sum(axes)) / count
        variance = all_reduce((exact - mean.view(shape)).square().sum(axes)) / count
        if self.track_running_stats:
            self._update(mean.detach(), variance.detach() * count / (count - 1))
        x = (exact - mean.view(shape)) * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            x = x * self.weight.view(shape) + self.bias.view(shape)
        return x.to(input.dtype)

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor) -> None:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), share)
        self.running_var.lerp_(variance.to(self.running_var), share)


@contextlib.contextmanager
def unchanged_statistics(norms: Sequence[nn.Module]) -> Iterator[None]:
    """Let a forward pass change no running statistics, for blocks that are computed again.

    Modules update copies, because a recomputation must save the same tensors for the backward pass as the first
    computation. Attributes are restored too: some modules count their batches in one.
    """
    states = [dict(vars(norm)) for norm in norms]
    for norm in norms:
        vars(norm)["_buffers"] = {name: None if b is None else b.clone() for name, b in norm._buffers.items()}
    try:
        yield
    finally:
        for norm, state in zip(norms, states):
            vars(norm).update(state)
