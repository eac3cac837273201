"""CenterPoint (Yin 2021): 3-D boxes from a heatmap per class and a box regressed in every cell."""

import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.registry.ranges import Classes, Count, NonNegative, Share, SomeShare, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.system.processes import shared_divisor
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.driving.answer import Boxes3D
from ndformer.modalities.driving.models.bev_grid import BEVGrid
from ndformer.modalities.driving.models.birds_eye import MapNorm
from ndformer.modalities.driving.models.objects3d import (
    Objects3D,
    decode_boxes,
    encode_boxes,
    local_maxima,
    peak_focal,
    peaks,
)
from ndformer.moved import old_names

CODE = dict(offset=2, height=1, size=3, heading=2, velocity=2)  # channels of the box code of a cell
PRIOR = 0.1  # initial score of every cell


class Cells(NamedTuple):
    """Predictions for every cell of a bird's-eye-view map."""

    peaks: Tensor  # (B, classes, ny, nx) heatmap logits
    code: Tensor  # (B, 10, ny, nx): x and y from the cell's corner in cells, z, log sizes, sin and cos of yaw, velocity


@HEADS.register_module()
class CenterPoint(Head):
    """The CenterPoint head with one group of classes.

    A peak is a cell with the largest score among its 3 x 3 neighbors; there is no other suppression. predict() returns
    at most `most` boxes per sample, each with a score of at least `least_score`.

    A sample has `boxes` (K, 9) as x, y, z, width, length, height, yaw, vx, vy, and `classes` (K,). Objects whose center
    is outside the map and velocities that are NaN are ignored. The loss is the focal loss of the heatmap plus
    `box_weight` times the L1 loss of the box code at object centers, with velocities weighted by `velocity_weight`.
    """

    former_name = "CentrePoint"

    def __init__(
        self,
        dim: Width,
        classes: Classes,
        neck: dict[str, Any],
        width: Width = 64,
        most: Count = 200,
        least_score: Share = 0.01,
        box_weight: NonNegative = 0.25,
        velocity_weight: NonNegative = 0.2,
        norm_momentum: SomeShare = 0.01,
    ) -> None:
        super().__init__()
        self.neck = NECKS.create(neck, dim=dim)
        self.classes, self.max_boxes, self.min_score = classes, most, least_score
        self.box_weight, self.velocity_weight = box_weight, velocity_weight

        def branch(out: int) -> nn.Sequential:
            inner = [nn.Conv2d(width, width, 3, 1, 1, bias=False), MapNorm(width, norm_momentum), nn.ReLU()]
            return nn.Sequential(*inner, nn.Conv2d(width, out, 3, 1, 1))

        self.shared = nn.Sequential(
            nn.Conv2d(self.neck.width, width, 3, 1, 1, bias=False), MapNorm(width, norm_momentum), nn.ReLU()
        )
        self.heat = branch(classes)
        self.code = branch(sum(CODE.values()))
        init_prior(self.heat)

    def forward(self, tokens: TokenSet) -> Cells:
        x = self.shared(self.neck(tokens))
        return Cells(self.heat(x).float(), self.code(x).float())

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Objects3D:
        return Objects3D.from_samples(data_samples, self.classes, device)

    def loss(self, tokens: TokenSet, targets: Objects3D) -> dict[str, Tensor]:
        """Return the `loss` and its detached parts."""
        cells = self(tokens)
        with without_autocast(cells.code):
            grid: BEVGrid = self.neck.out
            heat = peak_focal(cells.peaks, peaks(targets, grid, self.classes))
            position = grid.to_cells(targets.boxes)
            inside = targets.real & grid.contains(position)  # (B, K)
            number = grid.flat_index(position)[:, None].expand(-1, cells.code.shape[1], -1)
            predicted = cells.code.flatten(2).gather(2, number).mT  # (B, K, 10)
            true = encode_boxes(targets.boxes, grid)
            true = torch.cat([position - position.floor(), true[..., 2:]], -1)
            mask = inside[..., None] & true.isfinite()
            weights = tensor_like([1.0] * 8 + [self.velocity_weight] * 2, true)
            error = (predicted - true.nan_to_num()).abs() * weights
            box = self.box_weight * error.masked_fill(~mask, 0).sum() / shared_divisor(inside.sum())
        return dict(loss=heat + box, peaks=heat.detach(), boxes=box.detach())

    @torch.no_grad()
    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        scores, labels, boxes = map(Tensor.cpu, self.decoded(self(tokens)))  # one device synchronization
        answers: list[Answer] = []
        for sample, score, label, box in zip(data_samples, finite(scores, data_samples), labels, boxes):
            keep = score >= self.min_score
            answers.append(Boxes3D(sample=sample, boxes=box[keep], labels=label[keep], scores=score[keep]))
        return answers

    def decoded(self, cells: Cells) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores (B, K), classes (B, K) and boxes (B, K, 9) of the K = `most` best peaks, best first."""
        grid: BEVGrid = self.neck.out
        scores = local_maxima(cells.peaks.sigmoid()).flatten(1)
        scores, best = scores.topk(min(self.max_boxes, scores.shape[1]))
        area = grid.shape[0] * grid.shape[1]
        labels, place = best.div(area, rounding_mode="floor"), best % area
        code = cells.code.flatten(2).gather(2, place[:, None].expand(-1, cells.code.shape[1], -1)).mT
        corner = torch.stack([place % grid.shape[1], place.div(grid.shape[1], rounding_mode="floor")], -1)
        return scores, labels, decode_boxes(torch.cat([corner + code[..., :2], code[..., 2:]], -1), grid)


def init_prior(layers: nn.Sequential) -> None:
    """Set the bias of the last layer such that all scores are PRIOR in the beginning."""
    nn.init.constant_(cast(Tensor, layers[-1].bias), -math.log(1 / PRIOR - 1))


__getattr__ = old_names(__name__, {"CentrePoint": "CenterPoint"})
