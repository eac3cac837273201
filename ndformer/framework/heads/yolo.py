"""YOLOv10's head (Wang 2024): a box and class scores at every cell of every map, and top-k decoding."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.losses.detection import Anchors
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import tensor_like

BINS = 16  # distances from 0 to 15 strides
FAR = -1e6  # pixels, and the logit of a score of 0


class Branch(nn.Module):
    """Convolutions for boxes and lighter (depthwise) ones for classes, separate for each level."""

    def __init__(
        self, channels: int, classes: int, strides: Sequence[float], norm_eps: float, norm_momentum: float
    ) -> None:
        super().__init__()
        self.strides = tuple(strides)
        inner, wide = max(16, channels // 4, 4 * BINS), max(channels, min(classes, 100))

        def conv(inputs: int, outputs: int, size: int, groups: int = 1) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, size, padding=size // 2, groups=groups, bias=False),
                nn.BatchNorm2d(outputs, norm_eps, norm_momentum),
                nn.SiLU(),
            )

        self.box = nn.ModuleList(
            nn.Sequential(conv(channels, inner, 3), conv(inner, inner, 3), nn.Conv2d(inner, 4 * BINS, 1))
            for _ in strides
        )
        self.score = nn.ModuleList(
            nn.Sequential(
                conv(channels, channels, 3, groups=channels),
                conv(channels, wide, 1),
                conv(wide, wide, 3, groups=wide),
                conv(wide, wide, 1),
                nn.Conv2d(wide, classes, 1),
            )
            for _ in strides
        )
        for level, stride in enumerate(strides):
            nn.init.ones_(_last_bias(self.box[level]))
            nn.init.constant_(
                _last_bias(self.score[level]), math.log(5 / classes / (640 / stride) ** 2)
            )  # 5 in 640 pixels

    def forward(self, maps: Sequence[Tensor]) -> Anchors:
        """Return predictions from (B, C, H, W) maps, one per stride."""
        return self.each([maps])[0]

    def each(self, groups: Sequence[Sequence[Tensor]]) -> list[Anchors]:
        """Return predictions for groups of samples of one size, with norms over the samples of all groups."""
        levels = list(zip(*groups))
        sides = [each_map(layer, maps) for layer, maps in zip(self.box, levels)]
        logits = [each_map(layer, maps) for layer, maps in zip(self.score, levels)]
        return [self._anchors(*group) for group in zip(groups, zip(*sides), zip(*logits))]

    def _anchors(self, maps: Sequence[Tensor], side_maps: Sequence[Tensor], score_maps: Sequence[Tensor]) -> Anchors:
        """Join levels. After the convolutions everything is float32: IoU^6 underflows in float16."""
        sides = torch.cat([_flattened(x) for x in side_maps], 1)  # (B, A, 4 R)
        logits = torch.cat([_flattened(x) for x in score_maps], 1)
        with without_autocast(sides):
            sides, logits = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (sides, logits))
            centers, stride = anchor_centers(maps, self.strides, sides.dtype)
            sides = sides.unflatten(-1, (4, BINS))
            return Anchors(centers, stride, logits, sides, decode(sides, centers, stride))


def each_map(layer: nn.Module, maps: Sequence[Tensor]) -> list[Tensor]:
    """Return layer(x) for maps of different sizes; batch norms take their statistics from all of them."""
    if len(maps) == 1:
        return [layer(maps[0])]
    if isinstance(layer, nn.Sequential):
        for part in layer:
            maps = each_map(part, maps)
        return list(maps)
    if not isinstance(layer, nn.modules.batchnorm._BatchNorm):
        return [layer(x) for x in maps]
    columns = [x.transpose(0, 1).flatten(1) for x in maps]  # (C, B H W)
    normed = layer(torch.cat(columns, 1)[None, :, None])[0, :, 0].split([c.shape[1] for c in columns], 1)
    return [y.unflatten(1, (len(x), *x.shape[2:])).transpose(0, 1) for x, y in zip(maps, normed)]


def padded_anchors(groups: Sequence[Anchors], samples: Sequence[Sequence[int]]) -> Anchors:
    """Return the anchors of groups of samples as one batch, padded by anchors that are in no object and have score 0.

    `samples` are the numbers of the samples of each group.
    """
    most = max(a.logits.shape[1] for a in groups)
    order = tensor_like(inverse_order(samples), groups[0].logits)

    def padded(values: Sequence[Tensor], fill: float) -> Tensor:
        rows = [F.pad(v, (*[0, 0] * (v.dim() - 2), 0, most - v.shape[1]), value=fill) for v in values]
        return torch.cat(rows).index_select(0, order)

    return Anchors(
        padded([a.centers.expand(len(s), -1, -1) for a, s in zip(groups, samples)], FAR),
        padded([a.stride.expand(len(s), -1) for a, s in zip(groups, samples)], 1.0),
        padded([a.logits for a in groups], FAR),
        padded([a.sides for a in groups], 0.0),
        padded([a.boxes for a in groups], 0.0),
    )


def inverse_order(samples: Sequence[Sequence[int]]) -> list[int]:
    """Return where each sample is in the concatenated groups, whose samples have these numbers."""
    numbers = [number for group in samples for number in group]
    return sorted(range(len(numbers)), key=numbers.__getitem__)


def anchor_centers(maps: Sequence[Tensor], strides: Sequence[float], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the centers (A, 2), x y in pixels, and strides (A,) of all anchors, by level and row."""
    centers, all_strides = [], []
    for x, stride in zip(maps, strides):
        rows, columns = (torch.arange(n, device=x.device, dtype=dtype) + 0.5 for n in x.shape[-2:])
        y, x_ = torch.meshgrid(rows, columns, indexing="ij")
        centers.append(torch.stack([x_, y], -1).flatten(0, 1) * stride)
        all_strides.append(torch.full((y.numel(),), stride, device=x.device, dtype=dtype))
    return torch.cat(centers), torch.cat(all_strides)


def decode(sides: Tensor, centers: Tensor, stride: Tensor) -> Tensor:
    """Return boxes (B, A, 4), x1 y1 x2 y2 in pixels, from the logits (B, A, 4, R) of distances to their sides."""
    bins = torch.arange(sides.shape[-1], device=sides.device, dtype=sides.dtype)
    left_top, right_bottom = ((sides.softmax(-1) * bins).sum(-1) * stride[:, None]).chunk(2, -1)
    return torch.cat([centers - left_top, centers + right_bottom], -1)


def best(logits: Tensor, boxes: Tensor, max_boxes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores (B, K), labels (B, K) and boxes (B, K, 4) of the K = min(max_boxes, A) best, best first.

    The K anchors with the best class come first, then the K best classes of those: an anchor can appear twice.
    """
    scores = logits.sigmoid()
    classes, count = scores.shape[-1], min(max_boxes, scores.shape[1])
    anchor = scores.amax(-1).topk(count).indices  # (B, K)
    scores, index = scores.gather(1, anchor[..., None].expand(-1, -1, classes)).flatten(1).topk(count)
    anchor = anchor.gather(1, index // classes)
    return scores, index % classes, boxes.gather(1, anchor[..., None].expand(-1, -1, 4))


def _flattened(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


def _last_bias(layers: nn.Module) -> Tensor:
    bias = list(layers.children())[-1].bias
    assert isinstance(bias, Tensor)
    return bias
