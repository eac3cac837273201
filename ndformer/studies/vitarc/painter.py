"""A small transformer that maps a grid of ARC to its answer, all cells at once, for vitarc:tasks.

samples = draw_samples("hollow", "train", count=1000, seed=0)
painter = Painter("Sincos, DirectionalRPE", samples)
fit(painter, batches(samples, 0), steps=400)
solve_rate(painter, draw_samples("hollow", "test", 200, seed=0, but=samples))
"""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.registry import DATASETS, MODALITIES
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from ndformer.studies.small import Samples, calibrated

CANVAS, SYMBOLS = 9, 14  # generated grids have at most 8 x 8 cells and a border; colors, borders, padding
DIM, DEPTH, HEADS, BATCH, LR = 48, 3, 4, 32, 4e-3
Places = Literal["grid", "raster", "objects", "shuffled"]


def draw_samples(task: str, split: str, count: int, seed: int, but: Samples | None = None) -> Samples:
    """Return canvases of a task and their answers (B, cells), without duplicates and without those of `but`."""
    pack = dict(type="PackGrid", canvas=CANVAS)
    options = dict(tasks=[task], count=count, tested=count, seed=seed, split=split, holdout=0.0, transforms=[pack])
    data = DATASETS.create(dict(type="DrawnTasks", data_root="drawn", **options))
    samples = [data[i] for i in range(len(data))]
    canvases = torch.stack([sample["inputs"]["arc"] for sample in samples])
    answers = torch.stack([sample["data_sample"]["labels"].flatten() for sample in samples])
    if but is not None:
        excluded = {canvas.numpy().tobytes() for canvas in but.tokens}
        keys = [canvas.numpy().tobytes() for canvas in canvases]
        new = [i for i, key in enumerate(keys) if key not in excluded and key not in keys[:i]]
        canvases, answers = canvases[new], answers[new]
    return Samples(canvases, torch.zeros(1, CANVAS**2, 2), answers, grid=(CANVAS, CANVAS))


def batches(samples: Samples, seed: int) -> Iterator[Samples]:
    """Yield batches in random order, without end."""
    generator = Generator().manual_seed(seed)
    while True:
        for chosen in torch.randperm(len(samples.tokens), generator=generator).split(BATCH):
            yield samples._replace(tokens=samples.tokens[chosen], targets=samples.targets[chosen])


def shuffled_answers(samples: Samples, seed: int) -> Samples:
    """Return the samples with permuted answers, as a control."""
    order = torch.randperm(len(samples.targets), generator=Generator().manual_seed(10_000_000 + seed))
    return samples._replace(targets=samples.targets[order])


class Painter(nn.Module):
    """A transformer over the tokens of GridCells that predicts a symbol for each cell.

    `places` are the positions of tokens: on the grid; their number in raster order, as in a one-dimensional ViT; with
    the number of their object as one more axis; or, as a control, permuted at random in each grid.
    """

    def __init__(self, encoding: str, like: Samples, places: Places = "grid") -> None:
        super().__init__()
        self.places: Places = places
        self.cells = MODALITIES.create(dict(type="GridCells", object_axis=places == "objects"), dim=DIM)
        where = self._placed(self.cells(like.tokens[:BATCH])).where
        dims = where.positions.shape[-1]
        self.transformer = Transformer(DIM, DEPTH, HEADS, dims, calibrated(parse_encoding(encoding), where))
        self.head = nn.Linear(DIM, SYMBOLS)

    def forward(self, samples: Samples) -> Tensor:
        """Return logits (B, symbols, cells)."""
        return self.head(self.transformer(self._placed(self.cells(samples.tokens))).features).transpose(1, 2)

    def _placed(self, tokens: TokenSet) -> TokenSet:
        where, x = tokens.where, tokens.features
        if self.places == "raster":
            where = Where(torch.arange(float(x.shape[1]))[None, :, None], grid=(x.shape[1],))
        if self.places == "shuffled":
            order = torch.rand(x.shape[:2]).argsort(1)
            where = Where(where.positions[0][order], objects=where.objects)
        return TokenSet(x, where)


@torch.no_grad()
def solve_rate(painter: Painter, samples: Samples) -> float:
    """Return the percentage of grids in which every cell is correct."""
    painter.eval()
    right = [
        (painter(samples._replace(tokens=tokens)).argmax(1) == targets).all(1)
        for tokens, targets in zip(samples.tokens.split(200), samples.targets.split(200))
    ]
    return 100 * torch.cat(right).double().mean().item()
