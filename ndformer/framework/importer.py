"""Importers of pretrained weights from other projects, which map names and shapes to ours.

    @importer("mine", license="MIT")
    def convert(state_dict, head_dim): ...          returns Imported; found as --weights mine:FILE

imported = IMPORTERS.get("mine").convert(load_tensors(path), head_dim=64)
imported.parts["backbone"].config, imported.parts["backbone"].weights
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ndformer.framework.errors import DataError, shorten_list
from ndformer.framework.registry import IMPORTERS

State = dict[str, Tensor]


@dataclass(frozen=True)
class Part:
    """A part of a model: its config and its weights by our names."""

    config: dict[str, Any]
    weights: State


@dataclass(frozen=True)
class Imported:
    """The result of an importer."""

    parts: dict[str, Part]  # by their place in a TokenModel: modalities.image, backbone, head
    left: list[str]  # names of entries that our model does not need
    assumed: str = ""  # settings that names and shapes do not determine


class Source:
    """A project whose weights can be imported."""

    convert: ClassVar[Callable[..., Imported]]
    license: ClassVar[str]  # of its weights
    inside: ClassVar[tuple[str, ...]]  # keys under which its files nest the weights
    head_dim: ClassVar[int]  # channels of a head, as published


def importer(
    name: str, license: str, inside: tuple[str, ...] = ("state_dict", "model"), head_dim: int = 64
) -> Callable[[Callable[..., Imported]], Callable[..., Imported]]:
    """Register a function of a state dict and the width of a head as the importer of a project's weights."""

    def register(convert: Callable[..., Imported]) -> Callable[..., Imported]:
        about = dict(convert=staticmethod(convert), license=license, inside=inside, head_dim=head_dim)
        IMPORTERS.register_module(name, module=type(name, (Source,), about))
        return convert

    return register


class StateDictReader:
    """A state dict of another project, from which each entry is taken once."""

    def __init__(self, state_dict: State, model: str, prefix: str = r"^(module\.)?") -> None:
        self.model = model
        self.left = {re.sub(prefix, "", name): value for name, value in state_dict.items()}

    def __contains__(self, name: str) -> bool:
        return name in self.left

    def take(self, name: str, *shape: int | None) -> Tensor:
        """Remove and return an entry, or raise DataError unless it has this shape (None matches any size)."""
        if name not in self.left:
            raise DataError(f"no weights of {name} were found: the file holds no whole {self.model}")
        value = self.left[name]
        if value.dim() != len(shape) or any(n not in (None, size) for n, size in zip(shape, value.shape)):
            expected = f"({', '.join('any' if n is None else str(n) for n in shape)})"
            raise DataError(f"{name} has shape {tuple(value.shape)} instead of {expected}: is this {self.model}?")
        del self.left[name]
        return value.float() if value.is_floating_point() else value

    def pair(self, source: str, target: str, *shape: int | None) -> State:
        """Take weight and bias of module `source` and return them for `target`; a missing bias becomes zeros."""
        weight = self.take(f"{source}.weight", *shape)
        name = f"{source}.bias"
        bias = self.take(name, len(weight)) if name in self else weight.new_zeros(len(weight))
        return {f"{target}.weight": weight, f"{target}.bias": bias}

    def count(self, pattern: str) -> int:
        """Return the number of consecutive indices, from 0, in names that match the pattern."""
        found = {int(match[1]) for match in (re.match(pattern, name) for name in self.left) if match}
        count = next(n for n in range(len(found) + 1) if n not in found)
        if count == 0:
            raise DataError(f"these are no weights of {self.model}: none is called like {_example(pattern)}")
        return count

    def check_unused(self, unused: str = "") -> list[str]:
        """Return the names of entries not taken, or raise DataError if one does not match the pattern `unused`."""
        unexpected = [name for name in self.left if not re.fullmatch(unused, name)]
        if unexpected:
            named = shorten_list([f"{name} {tuple(self.left[name].shape)}" for name in unexpected], 3)
            raise DataError(f"{named}: our model has no place for what these do in {self.model}")
        return list(self.left)


def head_count(dim: int, head_dim: int) -> int:
    if dim % head_dim:
        raise DataError(f"expected a head width that divides {dim} channels, got {head_dim}", "--head-dim N")
    return dim // head_dim


def _example(pattern: str) -> str:
    return pattern.replace("\\", "").replace("(d+)", "0")


def stacked(*rows: Tensor) -> Tensor:
    """Concatenate class token and registers (1, n, dim) to (sum of n, dim)."""
    return torch.cat([row[0] for row in rows])
