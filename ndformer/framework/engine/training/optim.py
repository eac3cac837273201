"""Optimizers and their parameter groups: weight decay, layer decay."""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.registry import OPTIMIZERS

NOT_OURS = ("Optimizer", "LBFGS", "SparseAdam")  # LBFGS wants the loss anew at each step, SparseAdam sparse gradients

for _name, _kind in vars(torch.optim).items():
    if isinstance(_kind, type) and issubclass(_kind, torch.optim.Optimizer) and _name not in NOT_OURS:
        OPTIMIZERS.register_module(name=_name, module=_kind)


@runtime_checkable
class Layered(Protocol):
    """A backbone for `layer_decay`: it says which of its weights are in which layer, 1 to `depth` from the input on; 0
    is before them, depth + 1 behind."""

    depth: int

    def layer_index(self, name: str) -> int: ...


def build_optimizer(
    model: nn.Module, cfg: dict[str, Any], groups: dict[str, Any] | None = None
) -> torch.optim.Optimizer:
    """Any torch.optim class by name, over the groups of `parameter_groups`; each group keeps its `lr_scale`."""
    params = parameter_groups(model, cfg.get("weight_decay", 0.0), **(groups or {}))
    for group in params:
        group["lr"] = cfg["lr"] * group["lr_scale"]
    if not any(group["lr"] for group in params):
        why = "param_groups makes every learning rate 0" if params else "all parameters are frozen"
        raise ValueError(f"{why}, so nothing would be learnt: leave something to train")
    return OPTIMIZERS.create(cfg, params=params)


def parameter_groups(
    model: nn.Module,
    weight_decay: float,
    layer_decay: float | None = None,
    decay_encoding: bool = True,
    no_decay: bool = False,
    lr_factors: dict[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Parameters that share a learning rate (layer decay) and weight decay.

    `layer_decay` d: the learning rate of block l of L is multiplied by d^(L - l), that of what comes before the blocks
    by d^(L + 1), of what comes after by 1 (BEiT); the backbone says which they are (`Layered`). With
    `decay_encoding=False` encodings, which begin anew in pretrained blocks, learn at the full rate. `no_decay`: no
    weight decay for vectors (biases, norms, tokens) and for what an encoding names in `no_weight_decay`. `lr_factors`,
    dict(blocks=0.1): times a factor where a name has that word in it, the first that fits.
    """
    factors = lr_factors or {}
    for word in factors:
        if not any(word in name for name, _ in model.named_parameters()):
            raise ValueError(f"param_groups.lr_factors: no parameter has '{word}' in its name, and none would change")
    spared = _spared(model)
    layers = None if layer_decay is None else _layers(model, decay_encoding)
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        decay = (
            0.0 if no_decay and (parameter.dim() <= 1 or name in spared or name.endswith(".tokens")) else weight_decay
        )
        scale = 1.0 if layer_decay is None or layers is None else layer_decay ** layers[name]
        scale *= next((factor for word, factor in factors.items() if word in name), 1.0)
        group = groups.setdefault((scale, decay), dict(params=[], names=[], weight_decay=decay, lr_scale=scale))
        group["params"].append(parameter)
        group["names"].append(name)
    return list(groups.values())


def _layers(model: nn.Module, decay_encoding: bool) -> dict[str, int]:
    """How many layers are above that of a parameter: 0 behind the blocks, L + 1 before them."""
    backbone = model.get_submodule("backbone")
    if not isinstance(backbone, Layered):
        raise ValueError(
            f"layer_decay is for backbones that say their layers, and {type(backbone).__name__} has no `depth` and "
            "`layer_index(name)`: write them, or leave layer_decay out"
        )
    numbers = {f"backbone.{name}": backbone.layer_index(name) for name, _ in backbone.named_parameters()}
    full_rate = set() if decay_encoding else _encoding_names(model)
    before = {name for name, _ in model.named_parameters() if name.startswith("modalities.") or name == "kinds"}
    behind = backbone.depth + 1
    numbers |= dict.fromkeys(before, 0) | dict.fromkeys(full_rate, behind)
    return {name: behind - numbers.get(name, behind) for name, _ in model.named_parameters()}


def pretrained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of adapters and backbone without its encodings: those that `freeze_epochs` leaves alone."""
    encoding = _encoding_names(model)
    named = model.named_parameters()
    return [p for name, p in named if name.startswith(("modalities.", "backbone.")) and name not in encoding]


def _encoding_names(model: nn.Module) -> set[str]:
    return {
        f"{path}.{name}"
        for path, module in model.named_modules()
        if isinstance(module, LayerEncoding | PositionEncoding)
        for name, _ in module.named_parameters()
    }


def _spared(model: nn.Module) -> set[str]:
    names = set()
    for path, module in model.named_modules():
        if isinstance(module, LayerEncoding | PositionEncoding):
            for own, _ in module.named_parameters(recurse=True):
                if own.split(".")[0] in module.no_weight_decay:
                    names.add(f"{path}.{own}")
    return names
