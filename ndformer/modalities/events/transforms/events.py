"""Transforms of events: augmentations, and packing as tokens.

A transform is called as t(sample, rng), and all randomness comes from `rng`. It changes sample["events"] and, if
present, sample["boxes"] (M, 4), x, y, width and height with the upper left corner at (x, y), and sample["labels"] (M,).
An augmentation that would remove all events leaves the sample unchanged.

The recipe of Neuromorphic Data Augmentation and EventDrop, with the numbers of the PaPE repository, is FlipEvents()
and then OneOf() of DropArea(), DropTime(), DropEvents(), ShearEvents(), RollEvents() and RotateEvents().
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import (
    Count,
    Degrees,
    Few,
    Finite,
    Natural,
    NonNegative,
    Range,
    Share,
    ShareSpan,
    SideOrNone,
)
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.pictures.tokens import in_a_row, latest, pictures
from ndformer.modalities.events.spikes.spiking import Rule
from ndformer.modalities.events.spikes.tokenizers import SpikingTokenizer, Tokenizer, WindowTokenizer

Reference = Literal["start", "end"]
STREAM_KEYS = ("events", "start", "end", "before")  # keys that a packed sample no longer has


def select_events(sample: Sample, mask: np.ndarray) -> Sample:
    """Return the sample with the events of a mask, or unchanged where it selects none."""
    return sample | dict(events=sample["events"].take(mask)) if mask.any() else sample


def move_events(sample: Sample, x: np.ndarray, y: np.ndarray) -> Sample:
    """Move events to integer pixels (x, y) and drop those outside of the sensor; unchanged where none is inside."""
    events: Events = sample["events"]
    inside = (x >= 0) & (x < events.width) & (y >= 0) & (y < events.height)
    if not inside.any():
        return sample
    t, p = events.t[inside], events.p[inside]
    return sample | dict(events=Events.from_arrays(x[inside], y[inside], t, p, events.height, events.width))


def with_boxes(sample: Sample, boxes: np.ndarray, stay: np.ndarray) -> Sample:
    return sample | dict(boxes=boxes[stay].astype(np.float32), labels=sample["labels"][stay])


@TRANSFORMS.register_module()
class FlipEvents:
    """Flip left and right with probability `p`; `labels` has the new label for each class."""

    def __init__(self, p: Share = 0.5, labels: Sequence[Natural] | None = None) -> None:
        self.p, self.labels = p, labels

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p:
            return sample
        events: Events = sample["events"]
        x = np.uint16(events.width - 1) - events.x
        sample = sample | dict(events=Events(x, events.y, events.t, events.p, events.height, events.width))
        if self.labels is not None and sample["label"] >= 0:  # -1: a file without a label
            if sample["label"] >= len(self.labels):
                raise DataError(
                    f"FlipEvents expects labels below {len(self.labels)}, the length of `labels`, "
                    f"got {sample['label']}. Add the missing ones"
                )
            sample["label"] = self.labels[sample["label"]]
            if "blend" in sample:
                other, share = sample["blend"]
                sample["blend"] = self.labels[other], share
        if "boxes" in sample:
            boxes = sample["boxes"].copy()
            boxes[:, 0] = events.width - boxes[:, 0] - boxes[:, 2]
            sample["boxes"] = boxes
        return sample


class Drop:
    """Base class of transforms that drop a random `share` of something."""

    def __init__(self, share: ShareSpan = (0.1, 0.75)) -> None:
        if not 0 <= share[0] <= share[1] <= 1:
            raise ValueError(f"share must be (lowest, highest), each from 0 to 1, got {share[0]:g} and {share[1]:g}")
        self.share = share


@TRANSFORMS.register_module()
class DropEvents(Drop):
    """Drop each event with a probability from `share`."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        share = rng.uniform(*self.share)
        return select_events(sample, rng.random(len(sample["events"]), np.float32) > share)


@TRANSFORMS.register_module()
class DropTime(Drop):
    """Drop the events of a time interval with a `share` of the duration, at a random start; it may exceed the end."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        t = sample["events"].t
        begin, length = rng.random(), rng.uniform(*self.share)
        if len(t) == 0:
            return sample
        duration = int(t[-1] - t[0])
        since = t - t[0]
        return select_events(sample, (since < begin * duration) | (since > (begin + length) * duration))


@TRANSFORMS.register_module()
class DropArea(Drop):
    """Drop the events of a rectangle with a `share` of the sensor's sides, and every box that it touches."""

    def __init__(self, share: ShareSpan = (0.05, 0.3)) -> None:
        super().__init__(share)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        events: Events = sample["events"]
        share = rng.uniform(*self.share)
        half_x, half_y = events.width * share / 2, events.height * share / 2
        x, y = rng.integers(events.width), rng.integers(events.height)
        dropped = (np.abs(events.x - float(x)) <= half_x) & (np.abs(events.y - float(y)) <= half_y)
        if dropped.all():
            return sample
        sample = select_events(sample, ~dropped)
        if "boxes" in sample:
            left, top, width, height = sample["boxes"].T
            across = (left <= x + half_x) & (left + width >= x - half_x)
            along = (top <= y + half_y) & (top + height >= y - half_y)
            sample = with_boxes(sample, sample["boxes"], ~(across & along))
        return sample


@TRANSFORMS.register_module()
class LastEvents:
    """Keep the last `count` events, as GEN1's reader does.

    With `until`, keep those up to so many seconds from the start, which becomes the moment to predict for.
    """

    def __init__(self, count: Count = 500_000, until: Finite | None = None) -> None:
        if count < 1:
            raise ValueError(f"count of LastEvents must be 1 or more, got {count}")
        self.count, self.until = count, until

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        events: Events = sample["events"]
        if self.until is not None:
            end = sample["start"] + round(1e6 * self.until)
            if not sample["start"] <= end <= sample["end"] + 100_000:  # allows for rounding up
                seconds = (sample["end"] - sample["start"]) / 1e6
                name = sample.get("path", "this recording")
                raise DataError(
                    f"until must be a time within {name}, which lasts {seconds:.3g} s, got {self.until:g} s"
                )
            events, sample = events.time_window(sample["start"], end + 1), sample | dict(end=end)
        events = events.take(slice(max(0, len(events) - self.count), None))
        start = int(events.t[0]) if len(events) else sample["end"]
        return sample | dict(events=events, start=start)


@TRANSFORMS.register_module()
class ShearEvents:
    """Shear by x + s y, with s up to `most` in both directions. Samples with boxes are refused."""

    def __init__(self, most: NonNegative = 0.3) -> None:
        self.max_slope = most

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        events = _events_without_boxes(self, sample)
        slope = rng.uniform(-self.max_slope, self.max_slope)
        return move_events(sample, np.floor(events.x + slope * events.y).astype(np.int64), events.y.astype(np.int64))


@TRANSFORMS.register_module()
class RollEvents:
    """Roll by up to `most` pixels along both axes, around the borders. Samples with boxes are refused."""

    def __init__(self, most: SideOrNone = 5) -> None:
        self.max_step = most

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        events = _events_without_boxes(self, sample)
        dx, dy = rng.integers(-self.max_step, self.max_step + 1, 2)
        x = (events.x.astype(np.int64) + dx) % events.width
        return move_events(sample, x, (events.y.astype(np.int64) + dy) % events.height)


@TRANSFORMS.register_module()
class RotateEvents:
    """Rotate about the sensor's center by up to `degrees` in both directions.

    Boxes become the boxes around the rotated ones; those that exceed the sensor are dropped.
    """

    def __init__(self, degrees: Degrees = 30.0) -> None:
        self.degrees = degrees

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        events: Events = sample["events"]
        angle = np.radians(rng.uniform(-self.degrees, self.degrees))
        matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        middle = np.array([events.width / 2, events.height / 2])
        turn = lambda places: (places - middle) @ matrix.T + middle
        x, y = np.floor(turn(np.stack([events.x, events.y], 1) + 0.5)).astype(np.int64).T  # the centers of pixels
        sample = move_events(sample, x, y)
        if sample["events"] is not events and "boxes" in sample:
            corner, size = sample["boxes"][:, None, :2], sample["boxes"][:, None, 2:]
            corners = turn(corner + size * np.array([(0, 0), (0, 1), (1, 0), (1, 1)]))  # (M, 4, 2)
            low = corners.min(1)
            size = corners.max(1) - low
            inside = (low >= 0).all(1) & (low + size <= (events.width, events.height)).all(1)
            sample = with_boxes(sample, np.concatenate([low, size], axis=1), inside)
        return sample


def _events_without_boxes(transform: object, sample: Sample) -> Events:
    if "boxes" in sample:
        raise ValueError(
            f"{type(transform).__name__} changes positions but not boxes. Remove it from the transforms of a detector"
        )
    return sample["events"]


@TRANSFORMS.register_module()
class OneOf:
    """Apply one of the transforms, or none, all with equal probability.

    A choice that would remove all boxes, or later leave no token, is undone.
    """

    def __init__(self, transforms: Sequence[dict[str, Any]]) -> None:
        self.transforms = [TRANSFORMS.create(transform) for transform in transforms]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        choice = int(rng.integers(len(self.transforms) + 1))
        if choice == len(self.transforms):
            return sample
        changed = self.transforms[choice](sample, rng)
        if len(sample.get("boxes", ())) and not len(changed["boxes"]):
            return sample
        return changed | dict(before=sample)


class PackTokens(Pack):
    """Pack events as tokens in one int16 tensor (tokens.py); the other values become the data sample (last transform).

    The time of a token is counted from the sample's start or, with reference='end', backwards from its end.
    """

    input_name = "events"

    def __init__(self, tokenizer: Tokenizer, reference: Reference) -> None:
        self.tokenizer, self.reference, self.ages = tokenizer, reference, reference == "end"

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        start = sample["start"]
        if self.ages and isinstance(self.tokenizer, WindowTokenizer):
            start = self.tokenizer.aligned_start(sample["end"] + 1, start)  # events at the end are included
        tokens = self.tokenizer(sample["events"], start)
        if len(tokens) == 0 and "before" in sample:
            return self(sample["before"], rng)
        since = np.maximum(sample["end"] - tokens.t, 0) if self.ages else tokens.t - sample["start"]
        data_sample = {name: value for name, value in sample.items() if name not in STREAM_KEYS}
        return dict(inputs=dict(events=tokens.pack(since)), data_sample=data_sample)

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """Draw the tokens of a sample, packed or not, at four times as (H, W, 3) uint8.

        For a sample with boxes, draw the last token of each patch, in sensor pixels.
        """
        if "inputs" not in sample:
            sample = self(sample, np.random.default_rng(0))
        packed, patch, bins = sample["inputs"]["events"], self.tokenizer.patch, self.tokenizer.bins
        if "boxes" in sample["data_sample"]:
            return latest(packed, patch, bins, self.ages, sample["data_sample"].get("size"))
        images = pictures(packed, patch, bins, self.ages)
        return in_a_row([images[len(images) * k // 4] for k in range(min(4, len(images)))])


@TRANSFORMS.register_module()
class PackSpikes(PackTokens):
    """Pack spiking patches: a patch emits a token after `threshold` events, and none for `refractory` microseconds."""

    def __init__(
        self,
        threshold: Annotated[int, Range(1, 1 << 14)] = 256,
        refractory: Natural = 100_000,
        patch: Few = 16,
        bins: Few = 10,
        reference: Reference = "start",
    ) -> None:
        super().__init__(SpikingTokenizer(Rule(threshold, refractory), patch, bins), reference)


@TRANSFORMS.register_module()
class PackFrames(PackTokens):
    """Pack event frames: the events of each patch in each `window` of microseconds. The modality then has bins=1."""

    def __init__(
        self, window: Count = 50_000, patch: Few = 16, threshold: Count = 1, reference: Reference = "start"
    ) -> None:
        super().__init__(WindowTokenizer(window, patch, 1, threshold), reference)


@TRANSFORMS.register_module()
class PackVoxels(PackTokens):
    """Pack voxel grids: event frames with each window split into `bins`."""

    def __init__(
        self,
        window: Count = 50_000,
        patch: Few = 16,
        bins: Few = 10,
        threshold: Count = 1,
        reference: Reference = "start",
    ) -> None:
        super().__init__(WindowTokenizer(window, patch, bins, threshold), reference)
