"""Boxes in space by their centres (CenterPoint, Yin 2021): a map of peaks for each class, and a box in every cell."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.boxes3d import Boxes3D
from ndformer.framework.bev_grid import BEVGrid
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.losses.objects3d import Objects3D, local_maxima, peak_focal, peaks
from ndformer.framework.necks.birds_eye import MapNorm
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.registry.ranges import Classes, Count, NonNegative, Share, SomeShare, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet

CODE = dict(offset=2, height=1, size=3, heading=2, velocity=2)  # numbers that a cell says of the box in it
START = 0.1  # the score that all cells begin with


class Cells(NamedTuple):
    """What is said in every cell of a map from above."""

    peaks: Tensor  # (B, classes, ny, nx) logits
    code: Tensor  # (B, 10, ny, nx): x and y from the cell's corner in cells, z, log sizes, sin and cos of yaw, velocity


@HEADS.register_module()
class CentrePoint(Head):
    """One group of classes, no suppression but that a peak is the largest of its 3 x 3 cells; the `most` surest count,
    with a score of `least_score` or more.

    A sample has its `boxes` (K, 9), x, y, z, width, length, height, yaw, vx, vy, and `classes` (K,). Of objects whose
    centre is beside the map nothing is learnt; of a velocity that is NaN neither. Trained by the focal loss of peaks,
    and L1 in the cells of centres, times `box_weight`, that of velocities times `velocity_weight` of it.
    """

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
        self.classes, self.most, self.least_score = classes, most, least_score
        self.box_weight, self.velocity_weight = box_weight, velocity_weight

        def branch(out: int) -> nn.Sequential:
            inner = [nn.Conv2d(width, width, 3, 1, 1, bias=False), MapNorm(width, norm_momentum), nn.ReLU()]
            return nn.Sequential(*inner, nn.Conv2d(width, out, 3, 1, 1))

        self.shared = nn.Sequential(
            nn.Conv2d(self.neck.width, width, 3, 1, 1, bias=False), MapNorm(width, norm_momentum), nn.ReLU()
        )
        self.heat = branch(classes)
        self.code = branch(sum(CODE.values()))
        last = self.heat[-1]
        assert isinstance(last, nn.Conv2d)
        assert last.bias is not None
        nn.init.constant_(last.bias, -torch.tensor(1 / START - 1).log().item())

    def forward(self, tokens: TokenSet) -> Cells:
        x = self.shared(self.neck(tokens))
        return Cells(self.heat(x).float(), self.code(x).float())

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Objects3D:
        return Objects3D.of(data_samples, self.classes, device)

    def loss(self, tokens: TokenSet, targets: Objects3D) -> dict[str, Tensor]:
        """The `loss`, and its parts to look at."""
        cells = self(tokens)
        with without_autocast(cells.code):
            field: BEVGrid = self.neck.out
            heat = peak_focal(cells.peaks, peaks(targets, field, self.classes))
            at = field.to_cells(targets.boxes)
            there = targets.real & field.contains(at)  # (B, K)
            number = field.flat_index(at)[:, None].expand(-1, cells.code.shape[1], -1)
            said = cells.code.flatten(2).gather(2, number).mT  # (B, K, 10)
            true = code_of(targets.boxes, field)
            known = there[..., None] & true.isfinite()
            weights = tensor_like([1.0] * 8 + [self.velocity_weight] * 2, true)
            away = (said - true.nan_to_num()).abs() * weights
            box = self.box_weight * away.masked_fill(~known, 0).sum() / there.sum().clamp(min=1)
        return dict(loss=heat + box, peaks=heat.detach(), boxes=box.detach())

    @torch.no_grad()
    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        scores, labels, boxes = map(Tensor.cpu, self.decoded(self(tokens)))  # waits for the device once
        found: list[Answer] = []
        for sample, score, label, box in zip(data_samples, finite(scores, data_samples), labels, boxes):
            keep = score >= self.least_score
            found.append(Boxes3D(sample=sample, boxes=box[keep], labels=label[keep], scores=score[keep]))
        return found

    def decoded(self, cells: Cells) -> tuple[Tensor, Tensor, Tensor]:
        """Scores (B, most), classes and boxes (B, most, 9), the surest first."""
        field: BEVGrid = self.neck.out
        scores = local_maxima(cells.peaks.sigmoid()).flatten(1)
        scores, best = scores.topk(min(self.most, scores.shape[1]))
        area = field.shape[0] * field.shape[1]
        labels, place = best.div(area, rounding_mode="floor"), best % area
        code = cells.code.flatten(2).gather(2, place[:, None].expand(-1, cells.code.shape[1], -1)).mT
        return scores, labels, boxes_of(code, place, field)


def code_of(boxes: Tensor, field: BEVGrid) -> Tensor:
    """(..., 9) -> (..., 10)."""
    at, yaw = field.to_cells(boxes), boxes[..., 6:7]
    sizes = boxes[..., 3:6].clamp(min=1e-6).log()  # padding has none
    return torch.cat([at - at.floor(), boxes[..., 2:3], sizes, yaw.sin(), yaw.cos(), boxes[..., 7:]], -1)


def boxes_of(code: Tensor, place: Tensor, field: BEVGrid) -> Tensor:
    """(..., 10) of cells (...,) -> (..., 9)."""
    corner = torch.stack([place % field.shape[1], place.div(field.shape[1], rounding_mode="floor")], -1)
    centre = (corner + code[..., :2]) * field.step + tensor_like(field.low, code)
    yaw = torch.atan2(code[..., 6:7], code[..., 7:8])
    return torch.cat([centre, code[..., 2:3], code[..., 3:6].clamp(max=6).exp(), yaw, code[..., 8:]], -1)
