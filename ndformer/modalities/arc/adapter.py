"""Grids to tokens: one for each cell of a canvas, at its row and column, and of which object."""

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
from ndformer.modalities.arc.formats.tasks import grid_of, read_task
from ndformer.modalities.arc.objects import box_numbers
from ndformer.modalities.arc.pictures.grids import boxed, drawn, side_by_side


@MODALITIES.register_module()
class GridCells(Adapter):
    """Canvases (B, S, S) of symbols -> a token for each of their cells, at (row, column), counted from 0.

    The axes of ViTARC (Li 2024, eq. 13) are (object, row, column). An object is the box around cells that are not of
    colour 0 and touch by side or corner, whatever their colours; its number is `where.objects`, which ObjectSincos
    reads as the first axis, and which no other encoding takes for a distance. `object_axis` makes it an axis of the
    positions for every encoding: (object, row, column), with position_dims=3. Borders and padding are of the
    background, and tokens like all others: they are part of the canvas.
    """

    endings = (".json",)  # files that open() reads

    def __init__(self, dim: Width, object_axis: bool = False) -> None:
        super().__init__()
        self.object_axis = object_axis
        self.axes = ("object", "row", "column") if object_axis else ("row", "column")
        self.symbols = nn.Embedding(len(SYMBOLS), dim)
        self.add_tokens(dim, class_token=False)

    def open(self, path: Path) -> Sample:
        """The first grid of a task that asks for an answer."""
        return dict(arc=read_task(path)["test"][0].input)

    def from_memory(self, value: Any) -> Sample:
        return dict(arc=grid_of(value.tolist() if isinstance(value, (np.ndarray, Tensor)) else value, "the grid"))

    @property
    def position_dims(self) -> int:
        return 3 if self.object_axis else 2

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        canvas = sample["inputs"]["arc"]
        numbers = box_numbers(_coloured(canvas[None]))[0]
        return [side_by_side(drawn(canvas.numpy()), boxed(numbers.numpy()))]

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        canvas = sample["inputs"]["arc"].numpy()
        return GridCanvas(drawn(canvas)[None], canvas.shape)

    def forward(self, canvases: Tensor) -> TokenSet:
        if canvases.dim() != 3:
            raise ValueError(f"canvases are (B, rows, columns) of symbols, got {tuple(canvases.shape)}: see PackGrid")
        _, rows, columns = canvases.shape
        x = self.symbols(canvases.flatten(1).long())  # (B, N, dim)
        y = torch.arange(float(rows), device=x.device)
        positions = torch.cartesian_prod(y, torch.arange(float(columns), device=x.device))[None]  # (1, N, 2)
        objects = box_numbers(_coloured(canvases)).flatten(1)  # (B, N)
        if not self.object_axis:
            return self.with_tokens(x, positions, grid=(rows, columns), objects=objects)
        positions = torch.cat([objects[..., None].float(), positions.expand(len(x), -1, -1)], dim=-1)
        return self.with_tokens(x, positions, objects=objects)


def _coloured(canvases: Tensor) -> Tensor:
    return (canvases > 0) & (canvases < PAD)
