"""Boxes in space by queries (TransFusion, Bai 2022, as UniTR has it): the best cells of a map look about themselves."""

import math
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.boxes3d import Boxes3D
from ndformer.framework.bev_grid import BEVGrid
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.losses.boxes3d import kept_above
from ndformer.framework.losses.matching import Matching, Weights
from ndformer.framework.losses.objects3d import Objects3D, local_maxima, peak_focal, peaks
from ndformer.framework.necks.birds_eye import MapNorm
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.registry.ranges import Classes, Count, Few, Natural, Rate, Share, SomeShare, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet

PARTS = dict(centre=2, height=1, size=3, heading=2, velocity=2, iou=1)
START = 0.1  # the score that all cells begin with


class Queries(NamedTuple):
    """What Q queries of B samples say, and the map that they are of."""

    peaks: Tensor  # (B, classes, ny, nx) logits
    seed: Tensor  # (B, Q, classes) the scores that the map gave the classes of a query's cell; 0 but for its own
    logits: Tensor  # (B, Q, classes)
    boxes: Tensor  # (B, Q, 9)
    code: Tensor  # (B, Q, 10) x and y in cells, z, log sizes, sin and cos of yaw, velocity
    iou: Tensor  # (B, Q) 2 IoU - 1 of the box, as the query thinks


@HEADS.register_module()
class TransFusion(Head):
    """A map of peaks for each class gives `queries`, its best cells; each attends to the map about it, `radius` cells
    far (None: to all of it, and queries to each other), and says a class and a box.

    Of `sharp` classes, small things such as nuScenes' 8 and 9, a peak need not be the largest among its neighbours;
    boxes of them that a surer one overlaps from above by an IoU of more than `nms` are left out. Scores are
    sigmoid(logit) times that of the peak, then score^(1 - trust) iou^trust. Trained on one query for each object, that
    of the Hungarian assignment. A sample has `boxes` and `classes` as for CentrePoint.
    """

    def __init__(
        self,
        dim: Width,
        classes: Classes,
        neck: dict[str, Any],
        width: Width = 128,
        heads: Few = 8,
        hidden: Width = 256,
        dropout: Rate = 0.1,
        queries: Count = 200,
        radius: Natural | None = 20,
        sharp: tuple[Natural, ...] = (),
        nms: Share = 0.175,
        trust: Share = 0.5,
        least_score: Share = 0.0,
        norm_momentum: SomeShare = 0.1,
    ) -> None:
        super().__init__()
        if max(sharp, default=0) >= classes:
            raise ValueError(f"sharp has numbers of classes, 0 to {classes - 1}, got {max(sharp)}")
        self.neck = NECKS.create(neck, dim=dim)
        self.classes, self.queries, self.sharp, self.nms = classes, queries, tuple(sharp), nms
        self.trust, self.least_score = trust, least_score
        self.shared = nn.Conv2d(self.neck.width, width, 3, 1, 1)
        self.heat = nn.Sequential(
            nn.Conv2d(width, width, 3, 1, 1),
            MapNorm(width, norm_momentum),
            nn.ReLU(),
            nn.Conv2d(width, classes, 3, 1, 1),
        )
        self.classed = nn.Linear(classes, width)
        self.decoder = Decoder(width, heads, hidden, dropout, radius)
        self.parts = nn.ModuleDict({name: _said(width, out) for name, out in (PARTS | dict(classes=classes)).items()})
        self.matching, self.weights = Matching(), Weights()
        for last in (self.heat[-1], cast(nn.Sequential, self.parts["classes"])[-1]):
            nn.init.constant_(cast(Tensor, cast(nn.Module, last).bias), -math.log(1 / START - 1))

    def forward(self, tokens: TokenSet) -> Queries:
        field: BEVGrid = self.neck.out
        x = self.shared(self.neck(tokens))  # (B, width, ny, nx)
        heat = self.heat(x).float()
        scores = heat.detach().sigmoid()
        best = local_maxima(scores, self.sharp).flatten(1)
        area = field.shape[0] * field.shape[1]
        best = best.topk(min(self.queries, best.shape[1])).indices  # (B, Q)
        label, place = best.div(area, rounding_mode="floor"), best % area
        own = F.one_hot(label, self.classes).to(x.dtype)  # (B, Q, classes)
        flat = x.flatten(2).mT  # (B, cells, width)
        q = flat.gather(1, place[..., None].expand(-1, -1, flat.shape[2])) + self.classed(own)
        middles = field.centers(flat)
        q = self.decoder(q, flat, middles, place, field)
        said = {name: part(q).float() for name, part in self.parts.items()}
        with without_autocast(x):
            centre = said["centre"] + middles[place]
            parts = [centre, *(said[name] for name in ("height", "size", "heading", "velocity"))]
            code = torch.cat(parts, -1)
            seed = scores.flatten(2).gather(2, place[:, None].expand(-1, self.classes, -1)).mT * own.float()
            return Queries(heat, seed, said["classes"], decoded(code, field), code, said["iou"][..., 0])

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Objects3D:
        return Objects3D.of(data_samples, self.classes, device)

    def loss(self, tokens: TokenSet, targets: Objects3D) -> dict[str, Tensor]:
        """The `loss`, and its parts to look at."""
        said, field = self(tokens), cast(BEVGrid, self.neck.out)
        with without_autocast(said.code):
            heat = peak_focal(said.peaks, peaks(targets, field, self.classes))
            there = targets.real & field.contains(field.to_cells(targets.boxes))
            inside = Objects3D(targets.boxes, targets.labels, there)
            pairs = self.matching(said.logits, said.boxes, inside, field)
            parts = dict(peaks=heat) | self.weights(said.logits, said.boxes, said.code, said.iou, inside, pairs, field)
        return dict(loss=torch.stack(list(parts.values())).sum()) | {k: v.detach() for k, v in parts.items()}

    @torch.no_grad()
    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        said = self(tokens)
        scores, labels = (said.logits.sigmoid() * said.seed).max(-1)  # (B, Q)
        sure = ((said.iou + 1) / 2).clamp(0, 1)
        scores = scores ** (1 - self.trust) * sure**self.trust
        found: list[Answer] = []
        scores, labels, boxes = map(Tensor.cpu, (scores, labels, said.boxes))
        for sample, score, label, box in zip(data_samples, finite(scores, data_samples), labels, boxes):
            keep = score >= self.least_score
            for one in self.sharp:
                own = (keep & (label == one)).nonzero().squeeze(1)
                keep[own] = kept_above(box[own], score[own], self.nms)
            order = score[keep].argsort(descending=True, stable=True)
            kept = [part[keep][order] for part in (box, label, score)]
            found.append(Boxes3D(sample=sample, boxes=kept[0], labels=kept[1], scores=kept[2]))
        return found


def decoded(code: Tensor, field: BEVGrid) -> Tensor:
    """(..., 10) -> (..., 9)."""
    centre = code[..., :2] * field.step + tensor_like(field.low, code)
    yaw = torch.atan2(code[..., 6:7], code[..., 7:8])
    return torch.cat([centre, code[..., 2:3], code[..., 3:6].clamp(max=6).exp(), yaw, code[..., 8:]], -1)


class Channels(nn.BatchNorm1d):
    """Batch norm of (B, N, C), over all but the channels."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.flatten(0, -2)).view_as(input)


def _said(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 64), Channels(64), nn.ReLU(), nn.Linear(64, out))


class Decoder(nn.Module):
    """A layer: queries attend to each other, then to the map, then feed-forward; a norm after each.

    With a `radius` a query is alone with its cells, as published: its self-attention then sees nothing but itself.
    Places are learnt of x and y in cells, and added to what queries and keys are made from.
    """

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, radius: int | None) -> None:
        super().__init__()
        self.heads, self.radius = heads, radius
        self.own, self.cross = (nn.MultiheadAttention(width, heads, dropout, batch_first=True) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.query_place, self.key_place = (
            nn.Sequential(nn.Linear(2, width), Channels(width), nn.ReLU(), nn.Linear(width, width)) for _ in range(2)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, q: Tensor, keys: Tensor, middles: Tensor, place: Tensor, field: BEVGrid) -> Tensor:
        """Queries (B, Q, C) at cells (B, Q) of a map (B, cells, C) -> (B, Q, C)."""
        with without_autocast(q):
            middles = middles.to(next(self.parameters()).dtype)
            at, cells = self.query_place(middles[place]), self.key_place(middles[None])
        alone = self.radius is not None
        x = q.flatten(0, 1)[:, None] if alone else q
        where = at.flatten(0, 1)[:, None] if alone else at
        x = x + self.drop(self.own(x + where, x + where, x, need_weights=False)[0])
        x = self.norms[0](x.view_as(q))
        placed = keys + cells
        x = self.norms[1](x + self.drop(self._look(x + at, placed, keys, place, field)))
        return self.norms[2](x + self.drop(self.mlp(x)))

    def _look(self, q: Tensor, placed: Tensor, keys: Tensor, place: Tensor, field: BEVGrid) -> Tensor:
        """Attention of each query to the cells about it."""
        if self.radius is None:
            return self.cross(q, placed, keys, need_weights=False)[0]
        B, Q, C = q.shape
        weights, biases = self.cross.in_proj_weight.chunk(3), self.cross.in_proj_bias.chunk(3)
        parts = [F.linear(x, w, b) for x, w, b in zip((q, placed, keys), weights, biases)]
        window, there = _about(place, field, self.radius)  # (B, Q, W)
        one = parts[0].flatten(0, 1).unflatten(-1, (self.heads, -1))[:, :, None]  # (B Q, H, 1, h)
        shift = window + torch.arange(B, device=q.device)[:, None, None] * keys.shape[1]
        k, v = (x.flatten(0, 1)[shift.flatten(0, 1)].unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in parts[1:])
        rate = self.cross.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(one, k, v, there.flatten(0, 1)[:, None, None], dropout_p=rate)
        return self.cross.out_proj(out.reshape(B, Q, C))


def _about(place: Tensor, field: BEVGrid, radius: int) -> tuple[Tensor, Tensor]:
    """(B, Q, W) the cells of the square about each cell (B, Q), and which of them are on the map."""
    ny, nx = field.shape
    step = torch.arange(-radius, radius + 1, device=place.device)
    y = place.div(nx, rounding_mode="floor")[..., None, None] + step[:, None]
    x = (place % nx)[..., None, None] + step
    there = (y >= 0) & (y < ny) & (x >= 0) & (x < nx)
    return (y.clamp(0, ny - 1) * nx + x.clamp(0, nx - 1)).flatten(2), there.flatten(2)
