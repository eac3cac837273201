"""FSDP2 (fully_shard) for a TokenModel: by block, with exact weights where positions are, for any set of modalities."""

from collections import Counter
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.engine.training.batch_norm import BatchNorm
from ndformer.framework.model import TokenModel
from ndformer.framework.system import processes

METHODS = ("features", "tokens")  # of TokenModel, which use weights outside forward()
# of a LayerEncoding, which Attention calls besides forward()
LAYER_METHODS = ("input", "qk_input", "values", "output", "token_numbers")


def shard(
    model: TokenModel, blocks: list[nn.Module], sizes: tuple[int, int], offload: bool, amp: torch.dtype | None
) -> None:
    """Apply FSDP2 to each block and then to the model, whose unit has all that is in no block.

    `sizes` are the number of replicas and of shards.
    """
    replicate, parts = sizes
    kind = next(model.parameters()).device.type
    axes = dict(replicate=replicate, shard=parts) if replicate > 1 else dict(shard=parts)
    mesh = init_device_mesh(kind, tuple(axes.values()), mesh_dim_names=tuple(axes))
    processes.broadcast(chain(model.parameters(), model.buffers()))
    scalars = {p for p in model.parameters() if p.dim() == 0}  # FSDP cannot shard them
    for parameter in scalars:
        parameter.register_post_accumulate_grad_hook(_average_gradient)
    if model.joint_modalities:
        model.register_forward_hook(_use_alike, with_kwargs=True)  # before FSDP's, so with whole weights
    common: dict[str, Any] = dict(mesh=mesh, ignored_params=scalars)
    common["offload_policy"] = CPUOffloadPolicy(pin_memory=kind != "cpu") if offload else OffloadPolicy()
    exact = MixedPrecisionPolicy(cast_forward_inputs=False)  # float32 weights, for positions, heads and BatchNorm
    low = MixedPrecisionPolicy(amp, None if amp is None else torch.float32, cast_forward_inputs=False)
    for block in _find_unshared(model, blocks):
        for part in () if amp is None else _exact_parts(block):
            fully_shard(part, mp_policy=exact, reshard_after_forward=False, **common)
            for name in LAYER_METHODS if isinstance(part, LayerEncoding) else ():
                register_fsdp_forward_method(part, name)
        fully_shard(block, mp_policy=low, **common)
    fully_shard(model, mp_policy=exact, **common)
    _register_methods(model)
    # FSDP moves tensors among the arguments to its device, but data samples stay on the CPU
    model.register_forward_pre_hook(_hide_samples, prepend=True, with_kwargs=True)
    model.register_forward_pre_hook(_show_samples, with_kwargs=True)


def _register_methods(model: nn.Module) -> None:
    """Let `features` and `tokens` gather the weights that they use, unless forward() calls them, which has done so."""
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


def _find_unshared(model: nn.Module, blocks: list[nn.Module]) -> list[nn.Module]:
    """Return the blocks that share no parameter with another part; FSDP needs shared ones in one unit, the model's."""
    inside = {module for block in blocks for module in block.modules()}
    parts = [block.parameters() for block in blocks]
    parts += [module.parameters(recurse=False) for module in model.modules() if module not in inside]
    owners = Counter(parameter for part in parts for parameter in set(part))
    return [block for block in blocks if all(owners[parameter] == 1 for parameter in block.parameters())]


def _exact_parts(block: nn.Module) -> list[nn.Module]:
    """Return the modules of a block that compute in float32: BatchNorm and the outermost encodings with weights."""
    parts: list[nn.Module] = []
    for module in block.modules():
        inner = any(module in set(part.modules()) for part in parts)
        if isinstance(module, (BatchNorm, LayerEncoding)) and not inner and any(p.dim() for p in module.parameters()):
            parts.append(module)
    return parts


def _average_gradient(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.copy_(processes.mean(parameter.grad))


def _use_alike(model: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
    """Add 0 to the loss for weights that only other processes use: FSDP needs gradients of the same weights."""
    if kwargs.get("mode") != "loss":
        return output
    weights = {name: p for name, p in model.named_parameters() if not processes.is_sharded(p) and p.requires_grad}
    leaves = _leaves(output["loss"].grad_fn)
    used = {name for name, weight in weights.items() if weight in leaves}
    missing = set().union(*processes.gather_objects(used)) - used
    zero = sum(weights[name].flatten()[:0].sum() for name in sorted(missing))
    return output if not missing else output | dict(loss=output["loss"] + zero)


def _leaves(node: Any) -> set[Tensor]:
    """Return the tensors whose gradients a backward pass from this node of the graph computes."""
    nodes, visited, leaves = [node], {node}, set()
    while nodes:
        node = nodes.pop()
        if node.name() == "torch::autograd::AccumulateGrad":
            leaves.add(node.variable)
        further = {next_node for next_node, _ in node.next_functions if next_node is not None} - visited
        visited |= further
        nodes += further
    return leaves


class _Hidden:
    def __init__(self, samples: Any) -> None:
        self.samples = samples


def _hide_samples(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    return args, {name: _Hidden(value) if name == "data_samples" else value for name, value in kwargs.items()}


def _show_samples(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    return args, {name: value.samples if isinstance(value, _Hidden) else value for name, value in kwargs.items()}
