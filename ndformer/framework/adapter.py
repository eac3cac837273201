"""Adapter: the base class that turns the inputs of one modality into tokens with positions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.data.dataset import Sample
from ndformer.framework.encoding.base import CLASS_POSITIONS, ClassPosition, class_position
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.canvas import Canvas, Dots
from ndformer.framework.registry.renamed import Renamed
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet, Where


class Adapter(nn.Module):
    """Base class of modalities: implement `forward` and register the class in MODALITIES.

    The first constructor argument is `dim`, the width of tokens. Optional: `endings` and `open` read files given to a
    model, `from_memory` reads arrays, `pictures` draws tokens, and `canvas` draws attention between them.
    """

    endings: ClassVar[tuple[str, ...]] = ()  # endings of file names that open() reads
    companion_endings: ClassVar[tuple[str, ...]] = ()  # endings of companion files, which are not samples
    axes: Sequence[str] = ()  # names of the position axes, such as ("time", "row", "column")
    periods: ClassVar[Sequence[float | None]] = ()  # of circular axes, such as (None, 360.0); (): all are lines
    more_tokens: str = "Make its patches or windows smaller."  # advice in the warning about few tokens; "": no warning
    extra_inputs: ClassVar[tuple[str, ...]] = ()  # extra keyword inputs of forward(), for example calibrations
    tokens: nn.Parameter  # (prefix, dim) class token and registers, after add_tokens()
    number: int | None = None  # of the modality in joint token sets; None: its place in the config
    class_at: ClassPosition = "nowhere"  # position of class token and registers
    prefix_names: tuple[str, ...] = ()  # names of these tokens, which precede those of a sample
    renamed_options: ClassVar[Mapping[str, Renamed]] = dict(class_at=CLASS_POSITIONS)

    def forward(self, inputs: Any, /) -> TokenSet:
        """Return the tokens (B, N, dim) of a batch: one stacked tensor, or a list where shapes differ.

        The `extra_inputs` are passed as keywords, in the same form.
        """
        raise NotImplementedError

    def is_sample(self, folder: Path) -> bool:
        """Return whether open() reads this folder as one sample, such as the frames of a video."""
        return False

    def open(self, path: Path) -> Sample:
        """Read a sample from a file, as the dataset's read() returns it.

        Arguments that the dataset lists in `opened_with` are passed as keywords.
        """
        raise DataError(f"{type(self).__name__} cannot open files. Implement `endings` and open(path)")

    def from_memory(self, value: Any) -> Sample:
        """Convert an array, or an object of a library of the modality, to a sample; raise ValueError if it is unfit.

        Keywords are as for open().
        """
        raise ValueError(f"{type(self).__name__} reads only files. Implement from_memory(value)")

    def likeness(self, sample: Sample) -> str | None:
        """Describe an opened file as likeness() of its datasets does, to warn about files unlike the training data."""
        return None

    def pictures(self, sample: Sample, pack: Any) -> list[np.ndarray]:
        """Draw the tokens of a sample packed by `pack`, as (H, W, 3) uint8 images, one for each moment.

        If the list is empty, tokens are drawn on canvas(), each in a different color.
        """
        return []

    def canvas(self, sample: Sample, pack: Any, places: np.ndarray) -> Canvas:
        """Return a canvas of the sample on which values of its tokens are drawn.

        `places` (N, P) are the positions from forward(), without the tokens of add_tokens(). `pack` is None if the
        dataset's read() returns model inputs.
        """
        return Dots(places, self.axes)

    def joint_canvas(self, sample: Sample, pack: Any, places: Mapping[str, np.ndarray]) -> Canvas:
        """Return a canvas for all tokens of a model that joins modalities, with positions by modality in join order.

        It is called on the adapter of the first modality that the sample has.
        """
        return Dots(np.concatenate(list(places.values())), self.axes)

    @property
    def patch_sides(self) -> tuple[int, int] | None:
        """The divisors of the input height and width (the last two axes); None if any size is accepted."""
        return None

    def resizing(self, size: tuple[int, int]) -> dict[str, Any]:
        """Return the config of the transform that resizes inputs to this height and width."""
        return dict(type="Resize", size=size)

    @property
    def varies_tokens(self) -> bool:
        """Whether training drops tokens or changes the size of patches, which only heads that pool tokens allow."""
        return False

    @property
    def gridless_option(self) -> str | None:
        """The name of a set option with which tokens form no grid in training, if there is one."""
        return None

    @property
    def position_dims(self) -> int | None:
        """The number of position axes; None if only the first batch can tell."""
        return None

    def count_tokens(self, size: tuple[int, ...]) -> int | None:
        """Return the number of tokens of an input of this size, all included; None if its content matters."""
        return None

    def add_tokens(self, dim: int, class_token: bool, registers: int = 0, class_at: ClassPosition = "nowhere") -> None:
        """Create the learned class token and registers. Call it last in a constructor: it draws random numbers."""
        class_at = class_position(class_at)
        self.tokens = nn.Parameter(torch.zeros(int(class_token) + registers, dim))
        self.prefix_names = ("class token",) * class_token + tuple(f"register {i + 1}" for i in range(registers))
        self.class_at = class_at  # the model replaces "auto"; without a model it means "nowhere"
        nn.init.trunc_normal_(self.tokens, std=0.02)

    def with_tokens(
        self,
        x: Tensor,
        positions: Tensor,
        valid: Tensor | None = None,
        grid: tuple[int, ...] | None = None,
        objects: Tensor | None = None,
    ) -> TokenSet:
        """Return a TokenSet of x (B, N, dim) at (B or 1, N, P), with class token and registers in front."""
        prefix = len(self.tokens)
        if prefix == 0:
            return TokenSet(x, Where(positions, valid=valid, grid=grid, objects=objects))
        x = torch.cat([self.tokens.to(x.dtype).expand(x.shape[0], -1, -1), x], dim=1)
        has_position = self.class_at in ("origin", "center")
        placed = None if has_position else torch.arange(x.shape[1], device=x.device)[None] >= prefix
        B, _, P = positions.shape
        middle = _mean_position(positions, valid) if self.class_at == "center" else positions.new_zeros(B, 1, P)
        positions = torch.cat([middle.expand(-1, prefix, -1), positions.expand(len(middle), -1, -1)], dim=1)
        valid = None if valid is None else F.pad(valid, (prefix, 0), value=True)
        objects = None if objects is None else F.pad(objects, (prefix, 0))
        return TokenSet(x, Where(positions, valid=valid, placed=placed, grid=grid, objects=objects))

    def with_tokens_packed(
        self,
        x: Tensor,
        positions: Tensor,
        lengths: Sequence[int],
        order: Sequence[int] | None = None,
        grids: Sequence[tuple[int, ...]] | None = None,
    ) -> TokenSet:
        """Return a TokenSet of one packed row, from x (T, dim) at (T, P), the tokens of one sample after the other.

        `lengths` are the numbers of tokens of the samples, `order` their numbers in the batch (by default 0, 1, 2 ...)
        and `grids` the grids that their tokens form. Class token and registers come in front of each sample.
        """
        prefix, samples = len(self.tokens), len(lengths)
        counts = tensor_like(lengths, positions)  # (S,)
        number = torch.arange(samples, device=x.device)
        sample = number.repeat_interleave(counts, output_size=len(x))  # (T,)
        name = number if order is None else tensor_like(order, positions)  # (S,)
        grids = None if grids is None else tuple(grids)
        if prefix == 0:
            return TokenSet(x[None], Where(positions[None], segment=name[sample][None], grids=grids))
        slot = torch.arange(len(x), device=x.device) + prefix * (sample + 1)
        first = counts.cumsum(0) - counts + prefix * number  # (S,) slot of the first token of each sample
        prefix_slot = (first[:, None] + torch.arange(prefix, device=x.device)).flatten()

        def inserted(values: Tensor, before: Tensor) -> Tensor:
            """Insert values (S, prefix, ...) before those of each sample, (T, ...); return (1, T + S prefix, ...)."""
            total = values.new_zeros(len(values) + samples * prefix, *values.shape[1:]).index_copy(0, slot, values)
            before = before.expand(samples, prefix, *values.shape[1:])
            return total.index_copy(0, prefix_slot, before.flatten(0, 1).to(values.dtype))[None]

        placed, center = None, positions.new_zeros(samples, 1, positions.shape[1])
        if self.class_at not in ("origin", "center"):
            placed = inserted(torch.ones_like(sample, dtype=torch.bool), torch.zeros((), dtype=torch.bool).to(x.device))
        if self.class_at == "center":
            sums = positions.new_zeros(samples, positions.shape[1]).index_add(0, sample, positions)
            center = (sums / counts.clamp(min=1)[:, None])[:, None]
        segment = inserted(name[sample], name[:, None])
        where = Where(inserted(positions, center), placed=placed, segment=segment, grids=grids)
        return TokenSet(inserted(x, self.tokens), where)


def _mean_position(positions: Tensor, valid: Tensor | None) -> Tensor:
    mask = torch.ones_like(positions[..., :1], dtype=torch.bool) if valid is None else valid[..., None]
    return torch.where(mask, positions, 0).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
