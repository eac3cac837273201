"""NaN and infinity in training: detection, and a search for the first layer that computes them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ndformer.framework.errors import shorten_list
from ndformer.framework.system import processes
from ndformer.framework.tokens import TokenSet


def finite(tensors: Iterable[Tensor]) -> bool:
    return bool(largest(tensors).isfinite())


def largest(tensors: Iterable[Tensor]) -> Tensor:
    """Return the largest magnitude on the tensors' device: 0 for none, not finite if a value is not.

    If some are sharded, all processes call it with the same tensors, and get the largest of all shards.
    """
    tensors = list(tensors)
    shards = [processes.local(t.detach()) for t in tensors]
    values = [t for t in shards if t.is_floating_point() and t.numel()]
    sizes = [t.abs().amax() if t.is_sparse else torch.linalg.vector_norm(t, float("inf")) for t in values]
    device = sizes[0].device if sizes else None  # with offloaded shards, buffers are on another one
    size = torch.stack([value.float().to(device) for value in sizes]).amax() if sizes else torch.zeros(())
    if any(map(processes.is_sharded, tensors)):
        size = size.to(shards[0].device).nan_to_num(torch.inf, torch.inf)  # a maximum over processes may drop NaN
        dist.all_reduce(size, dist.ReduceOp.MAX)
    return size


def origin(model: nn.Module, batch: dict[str, Any], compute_loss: Callable[[], Tensor]) -> str:
    """Compute a batch again, and return a sentence on the first value that is not finite and its samples.

    All processes call it, since computing a sharded model takes all; each returns the sentence of the first that has
    one.
    """
    if torch.is_anomaly_enabled() and processes.is_distributed():  # raised in one process, while others still compute
        return _bad_input(batch) or "it was not computed again, because that takes all processes"
    for name, weight in model.state_dict().items():
        if weight.is_floating_point() and not finite([weight]):
            return f"the weight {name} is already not finite: the last step was too large, or the weight was loaded so"
    inputs = _first(processes.gather_objects(_bad_input(batch)))
    return (
        inputs
        or _first(processes.gather_objects(_recompute(model, batch, compute_loss)))
        or ("computed again, all values are finite: an operation is not deterministic")
    )


def _first(sentences: Sequence[str]) -> str:
    """Return the sentence of the first process that has one; gradients become NaN after the losses of others."""
    return min(filter(None, sentences), key=lambda sentence: "first gradient" in sentence, default="")


def _bad_input(batch: dict[str, Any]) -> str:
    for name, value in batch["inputs"].items():
        for i, sample in enumerate(value):
            if sample is not None and not finite([sample]):
                return f"the input {name} of {sample_name(batch, i)} is not finite"
    return ""


def _recompute(model: nn.Module, batch: dict[str, Any], compute_loss: Callable[[], Tensor]) -> str:
    """Return the sentence on the first output or gradient that is not finite, or ""."""
    first: list[str] = []
    hooks = [module.register_forward_hook(_watch(name, batch, first)) for name, module in model.named_modules() if name]
    try:
        loss = compute_loss()
        if not first and not finite([loss]):
            first.append("the outputs of all layers are finite, the loss is not")
        loss.backward()  # also after a finding, because other processes compute it
    except RuntimeError as error:  # raised by --detect-anomaly
        first.append(str(error).splitlines()[0])
    finally:
        for hook in hooks:
            hook.remove()
    return _first(first)


def _watch(name: str, batch: dict[str, Any], first: list[str]) -> Callable[[nn.Module, Any, Any], None]:
    def check(kind: str, module: nn.Module, value: Tensor) -> None:
        if not first and not finite([value]):
            first.append(f"the first {kind} that is not finite is that of {name} ({type(module).__name__})")
            bad = _rows(value, len(batch["data_samples"]))
            if bad:
                first[0] += f", for {', '.join(sample_name(batch, i) for i in bad[:4])}"

    def hook(module: nn.Module, _: Any, output: Any) -> None:
        for value in _tensors(output):
            check("output", module, value)
            if value.requires_grad:
                value.register_hook(lambda g: check("gradient with respect to an output", module, g))

    return hook


def _rows(value: Tensor, samples: int) -> list[int]:
    """Return the samples with values that are not finite; none if all have them."""
    if value.dim() == 0 or len(value) != samples:
        return []
    bad = (~value.detach().isfinite()).flatten(1).any(1) if value.dim() > 1 else ~value.detach().isfinite()
    return [] if bad.all() else bad.nonzero().flatten().tolist()


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, TokenSet):
        return [value.features]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in _tensors(item)] if isinstance(value, (list, tuple)) else []


def sample_name(batch: dict[str, Any], i: int) -> str:
    sample = batch["data_samples"][i]
    return str(sample.get("path") or f"sample {sample.get('index', i)}")


def sample_names(batch: dict[str, Any]) -> str:
    return shorten_list([sample_name(batch, i) for i in range(len(batch["data_samples"]))], 8)
