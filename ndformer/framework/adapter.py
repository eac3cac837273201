"""Adapter: what makes tokens of one modality's inputs, and says where each of them is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.canvas import Canvas, Dots
from ndformer.framework.tokens import TokenSet, Where

ClassAt = Literal["nowhere", "origin", "centre", "auto"]  # centre: the mean of a sample's places; auto: the encoding's


class Adapter(nn.Module):
    """Extend it with `forward`, and register it in MODALITIES. Its constructor begins with `dim`, the width of tokens.

    With `endings` and `open`, files of one's own can be given to a model, with `taken` what is in memory; with
    `pictures`, its tokens are drawn, and with `scene`, what they take of each other.
    """

    endings: ClassVar[tuple[str, ...]] = ()  # of files that open() reads
    beside: ClassVar[tuple[str, ...]] = ()  # ends of names of files that lie beside those, and are none
    axes: Sequence[str] = ()  # names of the axes of its positions, ("time", "row", "column"), for pictures and programs
    more_tokens: str = "Make its patches or windows smaller."  # what a warning about few tokens says to do
    told: ClassVar[tuple[str, ...]] = ()  # extra keyword inputs of forward(), for example calibrations
    tokens: nn.Parameter  # (prefix, dim) class token and registers, of adapters that call add_tokens()
    class_at: ClassAt = "nowhere"  # where they stand
    named: tuple[str, ...] = ()  # what they are; those of a sample come behind them

    def forward(self, inputs: Any, /) -> TokenSet:
        """Of a batch: stacked, or as a list where shapes differ. Features (B, N, dim) and where they are. What it is
        `told` comes as keywords, alike."""
        raise NotImplementedError

    def is_sample(self, folder: Path) -> bool:
        """Whether a folder is one sample, as frames of a video are, and open() reads it; else it is looked through."""
        return False

    def open(self, path: Path) -> Sample:
        """What a dataset reads of one sample, from a file of it. Arguments that the dataset names in `opened_with`
        come here too."""
        raise DataError(f"{type(self).__name__} opens no files: give it `endings` and open(path)")

    def taken(self, value: Any) -> Sample:
        """The same of what is in memory: an array, or what a library of the modality has. A ValueError says in words
        why it is none. Arguments as for open()."""
        raise ValueError(f"{type(self).__name__} takes files alone: give it taken(value)")

    def likeness(self, sample: Sample) -> str | None:
        """What an opened file is like, in the words of its datasets' likeness(): predicting from a file unlike those of
        training is told."""
        return None

    def pictures(self, sample: Sample, pack: Any) -> list[np.ndarray]:
        """(H, W, 3) uint8 each: the tokens of a sample that `pack` packed, one picture or one for each moment. Without
        one, tokens are drawn on the scene(), each in a color of its own."""
        return []

    def scene(self, sample: Sample, pack: Any, places: np.ndarray) -> Canvas:
        """The same sample to draw values of its tokens on, which are at `places` (N, P) of forward(), in their order;
        those of add_tokens() are left out. `pack` is None where the dataset's read() gives what the model takes."""
        return Dots(places, self.axes)

    def joint_scene(self, sample: Sample, pack: Any, places: Mapping[str, np.ndarray]) -> Canvas:
        """The same of a model that joins modalities in one token set, of all their tokens: those of each, by its name,
        in the order in which they are joined. The first modality that a sample has is asked."""
        return Dots(np.concatenate(list(places.values())), self.axes)

    @property
    def patch_sides(self) -> tuple[int, int] | None:
        """What the height and width of its inputs, their last two axes, must divide by; None: any size will do."""
        return None

    def resizing(self, size: tuple[int, int]) -> dict[str, Any]:
        """The transform, as a config has it, that gives inputs this height and width."""
        return dict(type="Resize", size=size)

    @property
    def position_dims(self) -> int | None:
        """How many axes its positions have; None where it does not say: then the first batch does."""
        return None

    def add_tokens(self, dim: int, class_token: bool, registers: int = 0, class_at: ClassAt = "nowhere") -> None:
        """Class token and registers, learnt. The last thing in a constructor: it draws random numbers."""
        self.tokens = nn.Parameter(torch.zeros(int(class_token) + registers, dim))
        self.named = ("class token",) * class_token + tuple(f"register {i + 1}" for i in range(registers))
        self.class_at = class_at  # "auto" until a model puts what its encoding wants: by itself, nowhere
        nn.init.trunc_normal_(self.tokens, std=0.02)

    def with_tokens(
        self,
        x: Tensor,
        positions: Tensor,
        valid: Tensor | None = None,
        grid: tuple[int, ...] | None = None,
        objects: Tensor | None = None,
    ) -> TokenSet:
        """(B, N, dim) at (B or 1, N, P), behind the class token and registers."""
        prefix = len(self.tokens)
        if prefix == 0:
            return TokenSet(x, Where(positions, valid=valid, grid=grid, objects=objects))
        x = torch.cat([self.tokens.to(x.dtype).expand(x.shape[0], -1, -1), x], dim=1)
        somewhere = self.class_at in ("origin", "centre")
        placed = None if somewhere else torch.arange(x.shape[1], device=x.device)[None] >= prefix
        B, _, P = positions.shape
        middle = _centre(positions, valid) if self.class_at == "centre" else positions.new_zeros(B, 1, P)
        positions = torch.cat([middle.expand(-1, prefix, -1), positions.expand(len(middle), -1, -1)], dim=1)
        valid = None if valid is None else F.pad(valid, (prefix, 0), value=True)
        objects = None if objects is None else F.pad(objects, (prefix, 0))
        return TokenSet(x, Where(positions, valid=valid, placed=placed, grid=grid, objects=objects))


def _centre(positions: Tensor, valid: Tensor | None) -> Tensor:
    """(B, 1, P), of the tokens that are no padding."""
    kept = torch.ones_like(positions[..., :1], dtype=torch.bool) if valid is None else valid[..., None]
    return torch.where(kept, positions, 0).sum(1, keepdim=True) / kept.sum(1, keepdim=True).clamp(min=1)
