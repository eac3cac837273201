"""TransFusion (Bai 2022, as in UniTR): 3-D boxes from queries at the best heatmap cells, with local cross-attention."""

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.registry.ranges import Classes, Count, Few, Natural, Rate, Share, SomeShare, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.driving.answer import Boxes3D
from ndformer.modalities.driving.models.bev_grid import BEVGrid
from ndformer.modalities.driving.models.birds_eye import MapNorm
from ndformer.modalities.driving.models.boxes3d import rotated_nms
from ndformer.modalities.driving.models.center_point import init_prior
from ndformer.modalities.driving.models.matching import match, pair_losses
from ndformer.modalities.driving.models.objects3d import Objects3D, decode_boxes, local_maxima, peak_focal, peaks

PARTS = dict(centre=2, height=1, size=3, heading=2, velocity=2, iou=1)  # their names are in checkpoints


class Queries(NamedTuple):
    """Predictions of Q queries per sample, and the heatmap they were selected from."""

    peaks: Tensor  # (B, classes, ny, nx) heatmap logits
    seed: Tensor  # (B, Q, classes) heatmap score of the query's cell for the query's class, 0 for other classes
    logits: Tensor  # (B, Q, classes)
    boxes: Tensor  # (B, Q, 9)
    code: Tensor  # (B, Q, 10) x and y in cells, z, log sizes, sin and cos of yaw, velocity
    iou: Tensor  # (B, Q) predicted 2 IoU - 1 of the box


@HEADS.register_module()
class TransFusion(Head):
    """The TransFusion head: the `queries` best heatmap cells attend to the map and predict a class and a box each.

    A query attends to cells at most `radius` cells away; with None it attends to the whole map, and queries attend to
    each other. Cells of the classes `sharp` (small objects, nuScenes' 8 and 9) need not be local maxima; their boxes go
    through NMS in the bird's-eye view with the IoU threshold `nms`. The score is s^(1 - trust) * iou^trust, where s is
    sigmoid(logit) times the heatmap score. The loss uses one query per object, chosen by Hungarian assignment. A sample
    has `boxes` and `classes` as for CenterPoint.
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
            raise ValueError(f"sharp expects class numbers from 0 to {classes - 1}, got {max(sharp)}")
        self.neck = NECKS.create(neck, dim=dim)
        self.classes, self.queries, self.sharp, self.nms = classes, queries, tuple(sharp), nms
        self.trust, self.min_score = trust, least_score
        self.shared = nn.Conv2d(self.neck.width, width, 3, 1, 1)
        self.heat = nn.Sequential(
            nn.Conv2d(width, width, 3, 1, 1),
            MapNorm(width, norm_momentum),
            nn.ReLU(),
            nn.Conv2d(width, classes, 3, 1, 1),
        )
        self.classed = nn.Linear(classes, width)
        self.decoder = Decoder(width, heads, hidden, dropout, radius)
        self.parts = nn.ModuleDict({name: _branch(width, out) for name, out in (PARTS | dict(classes=classes)).items()})
        for layers in (self.heat, self.parts["classes"]):
            init_prior(cast(nn.Sequential, layers))

    def forward(self, tokens: TokenSet) -> Queries:
        grid: BEVGrid = self.neck.out
        x = self.shared(self.neck(tokens))  # (B, width, ny, nx)
        heat = self.heat(x).float()
        scores = heat.detach().sigmoid()
        best = local_maxima(scores, self.sharp).flatten(1)
        area = grid.shape[0] * grid.shape[1]
        best = best.topk(min(self.queries, best.shape[1])).indices  # (B, Q)
        label, place = best.div(area, rounding_mode="floor"), best % area
        one_hot = F.one_hot(label, self.classes).to(x.dtype)  # (B, Q, classes)
        flat = x.flatten(2).mT  # (B, cells, width)
        q = flat.gather(1, place[..., None].expand(-1, -1, flat.shape[2])) + self.classed(one_hot)
        middles = grid.centers(flat)
        q = self.decoder(q, flat, middles, place, grid)
        outputs = {name: part(q).float() for name, part in self.parts.items()}
        with without_autocast(x):
            center = outputs["centre"] + middles[place]
            code = torch.cat([center, *(outputs[name] for name in ("height", "size", "heading", "velocity"))], -1)
            seed = scores.flatten(2).gather(2, place[:, None].expand(-1, self.classes, -1)).mT * one_hot.float()
            return Queries(heat, seed, outputs["classes"], decode_boxes(code, grid), code, outputs["iou"][..., 0])

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Objects3D:
        return Objects3D.from_samples(data_samples, self.classes, device)

    def loss(self, tokens: TokenSet, targets: Objects3D) -> dict[str, Tensor]:
        """Return the `loss` and its detached parts."""
        queries, grid = self(tokens), cast(BEVGrid, self.neck.out)
        with without_autocast(queries.code):
            heat = peak_focal(queries.peaks, peaks(targets, grid, self.classes))
            inside = targets.real & grid.contains(grid.to_cells(targets.boxes))
            objects = Objects3D(targets.boxes, targets.labels, inside)
            pairs = match(queries.logits, queries.boxes, objects, grid)
            terms = pair_losses(queries.logits, queries.boxes, queries.code, queries.iou, objects, pairs, grid)
            parts = dict(peaks=heat) | terms
        return dict(loss=torch.stack(list(parts.values())).sum()) | {k: v.detach() for k, v in parts.items()}

    @torch.no_grad()
    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        queries = self(tokens)
        scores, labels = (queries.logits.sigmoid() * queries.seed).max(-1)  # (B, Q)
        iou = ((queries.iou + 1) / 2).clamp(0, 1)
        scores = scores ** (1 - self.trust) * iou**self.trust
        answers: list[Answer] = []
        scores, labels, boxes = map(Tensor.cpu, (scores, labels, queries.boxes))
        for sample, score, label, box in zip(data_samples, finite(scores, data_samples), labels, boxes):
            keep = score >= self.min_score
            for class_number in self.sharp:
                index = (keep & (label == class_number)).nonzero().squeeze(1)
                keep[index] = rotated_nms(box[index], score[index], self.nms)
            index = keep.nonzero().squeeze(1)
            index = index[score[index].argsort(descending=True, stable=True)]
            answers.append(Boxes3D(sample=sample, boxes=box[index], labels=label[index], scores=score[index]))
        return answers


class Channels(nn.BatchNorm1d):
    """Batch norm of (B, N, C) over the batch and tokens."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.flatten(0, -2)).view_as(input)


def _branch(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 64), Channels(64), nn.ReLU(), nn.Linear(64, out))


class Decoder(nn.Module):
    """A post-norm decoder layer: self-attention of queries, cross-attention to the map, feed-forward.

    With a `radius`, self-attention is applied to each query alone, as published. Positions (x, y in cells) go through
    an MLP and are added to the inputs of the query and key projections.
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

    def forward(self, q: Tensor, keys: Tensor, middles: Tensor, place: Tensor, grid: BEVGrid) -> Tensor:
        """Return (B, Q, C): queries (B, Q, C) at cells (B, Q) after attending to a map (B, cells, C)."""
        with without_autocast(q):
            middles = middles.to(next(self.parameters()).dtype)
            embedding, cells = self.query_place(middles[place]), self.key_place(middles[None])
        alone = self.radius is not None
        x = q.flatten(0, 1)[:, None] if alone else q
        where = embedding.flatten(0, 1)[:, None] if alone else embedding
        x = x + self.drop(self.own(x + where, x + where, x, need_weights=False)[0])
        x = self.norms[0](x.view_as(q))
        placed = keys + cells
        x = self.norms[1](x + self.drop(self._cross_attention(x + embedding, placed, keys, place, grid)))
        return self.norms[2](x + self.drop(self.mlp(x)))

    def _cross_attention(self, q: Tensor, placed: Tensor, keys: Tensor, place: Tensor, grid: BEVGrid) -> Tensor:
        """Attend from each query to the cells within radius."""
        if self.radius is None:
            return self.cross(q, placed, keys, need_weights=False)[0]
        B, Q, C = q.shape
        weights, biases = self.cross.in_proj_weight.chunk(3), self.cross.in_proj_bias.chunk(3)
        parts = [F.linear(x, w, b) for x, w, b in zip((q, placed, keys), weights, biases)]
        window, inside = _window(place, grid, self.radius)  # (B, Q, W)
        queries = parts[0].flatten(0, 1).unflatten(-1, (self.heads, -1))[:, :, None]  # (B Q, H, 1, h)
        shift = window + torch.arange(B, device=q.device)[:, None, None] * keys.shape[1]
        k, v = (x.flatten(0, 1)[shift.flatten(0, 1)].unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in parts[1:])
        rate = self.cross.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(queries, k, v, inside.flatten(0, 1)[:, None, None], dropout_p=rate)
        return self.cross.out_proj(out.reshape(B, Q, C))


def _window(place: Tensor, grid: BEVGrid, radius: int) -> tuple[Tensor, Tensor]:
    """Return (B, Q, W) the cells of the square around each cell (B, Q), and which of them are on the map."""
    ny, nx = grid.shape
    step = torch.arange(-radius, radius + 1, device=place.device)
    y = place.div(nx, rounding_mode="floor")[..., None, None] + step[:, None]
    x = (place % nx)[..., None, None] + step
    inside = (y >= 0) & (y < ny) & (x >= 0) & (x < nx)
    return (y.clamp(0, ny - 1) * nx + x.clamp(0, nx - 1)).flatten(2), inside.flatten(2)
