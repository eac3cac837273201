"""A small transformer that answers a grid of ARC by another, all cells at once: what vitarc:tasks measures.

scenes = drawn("hollow", "train", count=1000, seed=0)
painter = Painter("Sincos, DirectionalRPE", scenes)
fit(painter, batches(scenes, 0), steps=400)
solve_rate(painter, drawn("hollow", "test", 200, seed=0, but=scenes))
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

CANVAS, SYMBOLS = 9, 14  # drawn grids have at most 8 x 8 cells and a border; colours, borders and padding
DIM, DEPTH, HEADS, BATCH, LR = 48, 3, 4, 32, 4e-3
Places = Literal["grid", "raster", "objects", "shuffled"]


def draw_samples(task: str, split: str, count: int, seed: int, but: Samples | None = None) -> Samples:
    """Canvases of a task and their answers (B, cells); none of those in `but`, nor one twice."""
    pack = dict(type="PackGrid", canvas=CANVAS)
    wanted = dict(tasks=[task], count=count, tested=count, seed=seed, split=split, holdout=0.0, transforms=[pack])
    data = DATASETS.create(dict(type="DrawnTasks", data_root="drawn", **wanted))
    samples = [data[i] for i in range(len(data))]
    canvases = torch.stack([sample["inputs"]["arc"] for sample in samples])
    answers = torch.stack([sample["data_sample"]["labels"].flatten() for sample in samples])
    if but is not None:
        seen = {canvas.numpy().tobytes() for canvas in but.tokens}
        names = [canvas.numpy().tobytes() for canvas in canvases]
        new = [i for i, name in enumerate(names) if name not in seen and name not in names[:i]]
        canvases, answers = canvases[new], answers[new]
    return Samples(canvases, torch.zeros(1, CANVAS**2, 2), answers, grid=(CANVAS, CANVAS))


def batches(samples: Samples, seed: int) -> Iterator[Samples]:
    """For ever, in an order of chance."""
    generator = Generator().manual_seed(seed)
    while True:
        for chosen in torch.randperm(len(samples.tokens), generator=generator).split(BATCH):
            yield samples._replace(tokens=samples.tokens[chosen], targets=samples.targets[chosen])


def shuffled_answers(samples: Samples, seed: int) -> Samples:
    """As a control, with answers dealt out among the canvases."""
    order = torch.randperm(len(samples.targets), generator=Generator().manual_seed(10_000_000 + seed))
    return samples._replace(targets=samples.targets[order])


class Painter(nn.Module):
    """Tokens of GridCells through a transformer; a symbol for each cell. `places` says where tokens are: on their grid,
    at their numbers in raster order as in a ViT of one dimension, with their object as an axis more, or, as a control,
    each on another's place, dealt out anew in each grid."""

    def __init__(self, encoding: str, like: Samples, places: Places = "grid") -> None:
        super().__init__()
        self.places: Places = places
        self.cells = MODALITIES.create(dict(type="GridCells", object_axis=places == "objects"), dim=DIM)
        where = self._placed(self.cells(like.tokens[:BATCH])).where
        dims = where.positions.shape[-1]
        self.transformer = Transformer(DIM, DEPTH, HEADS, dims, calibrated(parse_encoding(encoding), where))
        self.head = nn.Linear(DIM, SYMBOLS)

    def forward(self, samples: Samples) -> Tensor:
        """(B, symbols, cells)."""
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
    """In %: grids of which every cell is right."""
    painter.eval()
    right = [
        (painter(samples._replace(tokens=tokens)).argmax(1) == targets).all(1)
        for tokens, targets in zip(samples.tokens.split(200), samples.targets.split(200))
    ]
    return 100 * torch.cat(right).double().mean().item()
