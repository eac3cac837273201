"""What an importer takes (a state dict), entry by entry, each held to the shape that it must have; what it makes."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError

State = dict[str, Tensor]


@dataclass(frozen=True)
class Part:
    """A part of a model: what to write into a config, and its weights by our names."""

    config: dict[str, Any]
    weights: State


@dataclass(frozen=True)
class Imported:
    parts: dict[str, Part]  # by where they stand in a TokenModel: modalities.image, backbone, head
    left: list[str]  # names of entries that are of no use to us
    assumed: str = ""  # what names and shapes do not tell


class Taken:
    """Weights of others, of which each is taken once."""

    def __init__(self, given: State, model: str, prefix: str = r"^(module\.)?") -> None:
        self.model = model
        self.left = {re.sub(prefix, "", name): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name in self.left

    def take(self, name: str, *shape: int | None) -> Tensor:
        """The entry of this name, which has this shape; None where any number will do."""
        if name not in self.left:
            raise DataError(f"no weights of {name} were found: the file holds no whole {self.model}")
        value = self.left[name]
        if value.dim() != len(shape) or any(n not in (None, own) for n, own in zip(shape, value.shape)):
            wanted = f"({', '.join('any' if n is None else str(n) for n in shape)})"
            raise DataError(f"{name} has shape {tuple(value.shape)} instead of {wanted}: is this {self.model}?")
        del self.left[name]
        return value.float() if value.is_floating_point() else value

    def pair(self, theirs: str, ours: str, *shape: int | None) -> State:
        """Weight and bias; where there is no bias, zeros, which are the same."""
        weight = self.take(f"{theirs}.weight", *shape)
        named = f"{theirs}.bias"
        bias = self.take(named, len(weight)) if named in self else weight.new_zeros(len(weight))
        return {f"{ours}.weight": weight, f"{ours}.bias": bias}

    def count(self, pattern: str) -> int:
        """How many numbers from 0 on there are in names like this."""
        found = {int(match[1]) for match in (re.match(pattern, name) for name in self.left) if match}
        whole = next(n for n in range(len(found) + 1) if n not in found)
        if whole == 0:
            raise DataError(f"these are no weights of {self.model}: none is called like {_example(pattern)}")
        return whole

    def rest(self, unused: str = "") -> list[str]:
        """What was not taken, all of which must be of no use; else it would act there, and not here."""
        strange = [name for name in self.left if not re.fullmatch(unused, name)]
        if strange:
            named = ", ".join(f"{name} {tuple(self.left[name].shape)}" for name in strange[:3])
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            raise DataError(f"{named}{more}: our model has no place for what these do in {self.model}")
        return list(self.left)


def heads_of(dim: int, head_dim: int) -> int:
    if dim % head_dim:
        raise DataError(f"{dim} channels do not divide into heads of {head_dim}: say how wide they are", "--head-dim N")
    return dim // head_dim


def _example(pattern: str) -> str:
    return pattern.replace("\\", "").replace("(d+)", "0")


def stacked(*rows: Tensor) -> Tensor:
    """Class token and registers (1, n, dim), one behind the other: (all n, dim)."""
    return torch.cat([row[0] for row in rows])
