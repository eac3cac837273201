"""Adapter that turns grids into tokens, one for each cell of a canvas, with its row, column and object."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.pictures.canvas import Canvas, GridCanvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.arc.formats.canvas import PAD, SYMBOLS
from ndformer.modalities.arc.formats.tasks import parse_grid, read_task
from ndformer.modalities.arc.objects import box_numbers
from ndformer.modalities.arc.pictures.grids import boxed, draw_symbols, side_by_side


@MODALITIES.register_module()
class GridCells(Adapter):
    """Turn canvases (B, S, S) of symbols into a token for each cell, at (row, column), counted from 0.

    Objects are as in ViTARC (Li 2024, eq. 13): an object is the box around cells that are not of color 0 and touch by
    side or corner, whatever their colors. Its number is in `where.objects`, which ObjectSincos reads as the first axis
    and other encodings ignore. `object_axis` makes it an axis of the positions for every encoding: (object, row,
    column), with position_dims=3. Borders and padding are background, and tokens like all others.
    """

    endings = (".json",)  # of the files that open() reads

    def __init__(self, dim: Width, object_axis: bool = False) -> None:
        super().__init__()
        self.object_axis = object_axis
        self.axes = ("object", "row", "column") if object_axis else ("row", "column")
        self.symbols = nn.Embedding(len(SYMBOLS), dim)
        self.add_tokens(dim, class_token=False)

    def open(self, path: Path) -> Sample:
        """Read the first test grid of a task."""
        return dict(arc=read_task(path)["test"][0].input)

    def from_memory(self, value: Any) -> Sample:
        return dict(arc=parse_grid(value.tolist() if isinstance(value, (np.ndarray, Tensor)) else value, "the grid"))

    @property
    def position_dims(self) -> int:
        return 3 if self.object_axis else 2

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        canvas = sample["inputs"]["arc"]
        numbers = box_numbers(_colored(canvas[None]))[0]
        return [side_by_side(draw_symbols(canvas.numpy()), boxed(numbers.numpy()))]

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        canvas = sample["inputs"]["arc"].numpy()
        return GridCanvas(draw_symbols(canvas)[None], canvas.shape)

    def forward(self, canvases: Tensor) -> TokenSet:
        if canvases.dim() != 3:
            raise ValueError(
                f"canvases must be (B, rows, columns) of symbols, got {tuple(canvases.shape)}: see PackGrid"
            )
        _, rows, columns = canvases.shape
        x = self.symbols(canvases.flatten(1).long())  # (B, N, dim)
        y = torch.arange(float(rows), device=x.device)
        positions = torch.cartesian_prod(y, torch.arange(float(columns), device=x.device))[None]  # (1, N, 2)
        objects = box_numbers(_colored(canvases)).flatten(1)  # (B, N)
        if not self.object_axis:
            return self.with_tokens(x, positions, grid=(rows, columns), objects=objects)
        positions = torch.cat([objects[..., None].float(), positions.expand(len(x), -1, -1)], dim=-1)
        return self.with_tokens(x, positions, objects=objects)


def _colored(canvases: Tensor) -> Tensor:
    return (canvases > 0) & (canvases < PAD)
