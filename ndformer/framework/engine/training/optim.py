"""Optimizers, and their parameter groups: weight decay, layer decay, learning-rate factors."""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.registry import OPTIMIZERS
from ndformer.framework.registry.signature import arguments
from ndformer.framework.system import processes

UNSUPPORTED = ("Optimizer", "LBFGS", "SparseAdam")  # LBFGS needs a closure, SparseAdam needs sparse gradients

for _name, _kind in vars(torch.optim).items():
    if isinstance(_kind, type) and issubclass(_kind, torch.optim.Optimizer) and _name not in UNSUPPORTED:
        OPTIMIZERS.register_module(name=_name, module=_kind)


@runtime_checkable
class Layered(Protocol):
    """A backbone for `layer_decay`.

    `layer_index(name)` is the layer of a parameter: 1 to `depth` from the input on, 0 before and depth + 1 after them.
    """

    depth: int

    def layer_index(self, name: str) -> int: ...


def build_optimizer(
    model: nn.Module, cfg: dict[str, Any], groups: dict[str, Any] | None = None
) -> torch.optim.Optimizer:
    """Build a torch.optim class by name, with the groups of `parameter_groups`."""
    defaults, _ = arguments(OPTIMIZERS.get(cfg["type"]))
    own = defaults["weight_decay"].default if "weight_decay" in defaults else 0.0  # of the class: AdamW's is 0.01
    decay = cfg.get("weight_decay", own)
    params = parameter_groups(model, decay, **(groups or {}))
    for group in params:
        group["lr"] = cfg["lr"] * group["lr_scale"]
    if not any(group["lr"] for group in params):
        why = "param_groups makes every learning rate 0" if params else "all parameters are frozen"
        raise ValueError(f"{why}, so nothing would be learned. Leave some parameters to train")
    return OPTIMIZERS.create(cfg, params=params)


def parameter_groups(
    model: nn.Module,
    weight_decay: float,
    layer_decay: float | None = None,
    decay_encoding: bool = True,
    no_decay: bool = False,
    lr_factors: dict[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Group the parameters of a model by learning rate and weight decay.

    layer_decay: d multiplies the learning rate of block l of L by d^(L - l), of parameters before the blocks by
        d^(L + 1), of those after by 1 (BEiT). The backbone must be `Layered`.
    decay_encoding: False excludes encodings from layer_decay, for new encodings in pretrained blocks.
    no_decay: no weight decay for vectors (biases, norms, tokens) and an encoding's `no_weight_decay`.
    lr_factors: dict(blocks=0.1) multiplies the learning rate where the name contains "blocks"; the first match counts.
    """
    factors = lr_factors or {}
    for word in factors:
        if not any(word in name for name, _ in model.named_parameters()):
            raise ValueError(
                f"param_groups.lr_factors: expected a part of a parameter's name, got '{word}', which is in none"
            )
    undecayed = _encoding_names(model, undecayed=True)
    layers = None if layer_decay is None else _layers(model, decay_encoding)
    groups: dict[tuple[float, float, bool], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        exempt = no_decay and (parameter.dim() <= 1 or name in undecayed or name.endswith(".tokens"))
        decay = 0.0 if exempt else weight_decay
        scale = 1.0 if layer_decay is None or layers is None else layer_decay ** layers[name]
        scale *= next((factor for word, factor in factors.items() if word in name), 1.0)
        sharded = processes.is_sharded(parameter)  # optimizers update the tensors of a group together
        empty = dict(params=[], names=[], weight_decay=decay, lr_scale=scale)
        group = groups.setdefault((scale, decay, sharded), empty)
        group["params"].append(parameter)
        group["names"].append(name)
    return list(groups.values())


def regrouped(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return a saved state in the parameter groups of an optimizer: under FSDP, scalars are in groups of their own."""
    saved, groups = state["param_groups"], optimizer.state_dict()["param_groups"]
    numbers = {name: number for group in saved for number, name in zip(group["params"], group["names"])}
    owner = {name: group for group in saved for name in group["names"]}
    orders = [[group["names"] for group in several] for several in (saved, groups)]
    if orders[0] == orders[1] or owner.keys() != {name for names in orders[1] for name in names}:
        return state
    moved = {new: numbers[name] for group in groups for new, name in zip(group["params"], group["names"])}
    return dict(
        state={new: state["state"][old] for new, old in moved.items() if old in state["state"]},
        param_groups=[owner[g["names"][0]] | dict(params=g["params"], names=g["names"]) for g in groups],
    )


def _layers(model: nn.Module, decay_encoding: bool) -> dict[str, int]:
    """Return the exponent of layer_decay for each parameter: 0 after the blocks, L + 1 before them."""
    backbone = model.get_submodule("backbone")
    if not isinstance(backbone, Layered):
        raise ValueError(
            f"param_groups.layer_decay: expected a backbone with `depth` and `layer_index(name)`, got "
            f"{type(backbone).__name__} without them. Write them, or leave layer_decay out"
        )
    numbers = {f"backbone.{name}": backbone.layer_index(name) for name, _ in backbone.named_parameters()}
    full_rate = set() if decay_encoding else _encoding_names(model)
    before = {name for name, _ in model.named_parameters() if name.startswith("modalities.") or name == "kinds"}
    last = backbone.depth + 1
    numbers |= dict.fromkeys(before, 0) | dict.fromkeys(full_rate, last)
    return {name: last - numbers.get(name, last) for name, _ in model.named_parameters()}


def pretrained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that `freeze_epochs` freezes: adapters and backbone, without encodings."""
    encoding = _encoding_names(model)
    named = model.named_parameters()
    return [p for name, p in named if name.startswith(("modalities.", "backbone.")) and name not in encoding]


def _encoding_names(model: nn.Module, undecayed: bool = False) -> set[str]:
    """Return the names of the parameters of encodings, all or those without weight decay."""
    return {
        f"{path}.{name}"
        for path, module in model.named_modules()
        if isinstance(module, LayerEncoding | PositionEncoding)
        for name, _ in module.named_parameters()
        if not undecayed or name.split(".")[0] in module.no_weight_decay
    }
