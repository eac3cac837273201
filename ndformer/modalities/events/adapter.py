"""Adapter that turns packed events into tokens at (time, row, column)."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.adapter import Adapter, ClassPosition
from ndformer.framework.data.dataset import Sample
from ndformer.framework.pictures.canvas import Canvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Few, Positive, Width
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.events.formats.files import ENDINGS, read_events
from ndformer.modalities.events.formats.stream import Events, describe_sensor, recording_sample
from ndformer.modalities.events.formats.tables import to_events
from ndformer.modalities.events.pictures.overlay import Stream
from ndformer.modalities.events.pictures.tokens import pictures as stretches
from ndformer.modalities.events.spikes.tokens import check_patch, unpack
from ndformer.modalities.events.transforms.events import PackTokens


@MODALITIES.register_module()
class SpikingPatches(Adapter):
    """Turn events packed by PackSpikes, PackFrames or PackVoxels, (B, n, HEAD + K) or a list of them, into tokens.

    The feature of a token is a linear projection of log(1 + events) in each cell of its patch. `patch` and `bins` must
    be those of the packing. Positions are float32 (time since the packing's reference in `time_unit` microseconds, row,
    column).

    A class token comes first. `class_at` says where it stands: 'nowhere' gives it no position, 'origin' puts it at 0
    (as in the PaPE repository), 'center' at the mean position of the sample's patches, and 'auto' where the encoding of
    the model reads it best.
    """

    endings = ENDINGS  # of the files that open() reads
    axes = ("time", "row", "column")
    more_tokens = (
        "Set a lower `threshold` of PackSpikes (a shorter window of PackFrames) in the transforms of each loader, or a "
        "smaller `patch` both there and in the modality: docs/get-started/custom-recordings.md."
    )
    # files next to recordings that are none: GEN1's boxes, DvsGesture's tables
    companion_endings = ("_bbox.npy", "_labels.csv", "trials_to_train.txt", "trials_to_test.txt")

    def __init__(
        self,
        dim: Width,
        patch: Few = 16,
        bins: Few = 10,
        time_unit: Positive = 50_000.0,
        class_token: bool = True,
        class_at: ClassPosition = "nowhere",
    ) -> None:
        super().__init__()
        if not time_unit > 0:
            raise ValueError(f"time_unit must be a number of microseconds above 0, got {time_unit:g}")
        self.patch, self.bins, self.time_unit = patch, bins, time_unit
        self.volume = check_patch(patch, bins)
        self.project = nn.Linear(self.volume, dim)
        self.add_tokens(dim, class_token, class_at=class_at)

    @property
    def position_dims(self) -> int:
        return 3

    def open(self, path: Path) -> Sample:
        events = read_events(path)
        if len(events) == 0:
            warnings.warn(f"{path} has no events", stacklevel=2)
        return recording_sample(events, path)

    def from_memory(self, value: Any) -> Sample:
        return recording_sample(value if isinstance(value, Events) else to_events(value), "the recording")

    def likeness(self, sample: Sample) -> str:
        return describe_sensor(sample["events"])

    def pictures(self, sample: Sample, pack: PackTokens) -> list[np.ndarray]:
        return stretches(sample["inputs"]["events"], self.patch, self.bins, pack.ages)

    def canvas(self, sample: Sample, pack: PackTokens, places: np.ndarray) -> Canvas:
        return Stream(sample["inputs"]["events"], self.patch, self.bins, pack.ages, places)

    def forward(self, packed: Tensor | list[Tensor]) -> TokenSet:
        counts = [len(tokens) for tokens in packed]
        width = max(tokens.shape[1] for tokens in packed)
        flat = torch.cat([F.pad(tokens, (0, width - tokens.shape[1]), value=-1) for tokens in packed])  # (T, HEAD + K)
        if len(flat) and bool((flat[:, 0] != self.volume).any()):
            raise ValueError(
                f"the modality has {self.volume} cells per patch (2 bins patch^2), but tokens were packed with "
                f"{int(flat[0, 0])}: set patch and bins to those of the packing"
            )
        since, place, cells = unpack(flat)
        # time is in whole microseconds up to here, which float32 cannot represent for long recordings
        time = (since.double() / self.time_unit).float()
        features = self.project(self.logarithms(cells).to(self.project.weight.dtype))  # (T, dim)
        rows = max([*counts, 1 - len(self.tokens)])  # at least one row, with the class token
        lengths = tensor_like(counts, flat)  # (B,)
        valid = torch.arange(rows, device=flat.device) < lengths[:, None]  # (B, N)
        before = torch.arange(len(counts), device=flat.device) * rows - lengths.cumsum(0) + lengths
        slot = torch.arange(len(flat), device=flat.device) + before.repeat_interleave(lengths, output_size=len(flat))
        x, positions = (
            values.new_zeros(len(counts) * rows, values.shape[1])
            .index_copy(0, slot, values)
            .unflatten(0, (len(counts), rows))
            for values in (features, torch.stack([time, *place.float().unbind(1)], dim=1))
        )
        return self.with_tokens(x, positions, None if min(counts) == rows else valid)

    def logarithms(self, cells: Tensor) -> Tensor:
        """Return log(1 + events) of each cell, (T, volume) float32, from the cells (T, K) of events."""
        dense = torch.zeros(len(cells), self.volume + 1, device=cells.device)  # the last column collects the padding
        cells = cells.where(cells >= 0, self.volume)
        dense.scatter_add_(1, cells, dense.new_ones(()).expand(cells.shape))
        return dense.scatter_(1, cells, dense.gather(1, cells).log1p())[:, : self.volume]
