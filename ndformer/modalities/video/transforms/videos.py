"""Transforms of videos: selection of frames, changes of frames, and packing.

A sample's `video` is a file or a folder of frames, until SampleFrames decodes it to frames (T, H, W, 3) uint8.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Decoding, Sample, Transform
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Few, Natural, Share, Width
from ndformer.modalities.video.formats.frames import Film

PICTURED = 5  # frames of a picture


@TRANSFORMS.register_module()
class SampleFrames(Decoding):
    """Decode `count` groups of `together` consecutive frames, one group every `every` frames.

    The defaults are the PaPE paper's: 0, 1, 10, 11, 20, 21, 30, 31, 40, 41. They start at the beginning of the video,
    or with start='random' anywhere; clip k of a dataset with several clips for each video starts at the k-th of evenly
    spread places. Groups beyond the end of the video are left out; a video shorter than one group repeats its last
    frame.
    """

    def __init__(
        self, together: Few = 2, every: Width = 10, count: Few = 5, start: Literal["first", "random"] = "first"
    ) -> None:
        if together < 1 or every < together or count < 1:
            raise ValueError(
                f"SampleFrames needs groups of 1 frame or more, which do not overlap, got together={together}, "
                f"every={every}, count={count}"
            )
        self.together, self.start = together, start
        self.fixed = start == "first"
        self.pattern = (np.arange(count)[:, None] * every + np.arange(together)).ravel()  # (count together,)

    def count(self, total: int) -> int:
        """Return the number of frames that it takes of a video of `total` frames."""
        complete = int((self.pattern < total).sum()) // self.together * self.together
        return max(complete, self.together)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        video: Film = sample["video"]
        clip, clips = sample.get("clip", (0, 1))
        begin = 0
        if self.start == "random" or clips > 1:
            room = max(0, video.facts()["frames"] - int(self.pattern[-1]) - 1)
            begin = int(rng.integers(room + 1)) if self.start == "random" else round(room * clip / max(1, clips - 1))
        frames, numbers = video.frames((self.pattern + begin).tolist())
        complete = len(numbers) // self.together * self.together
        if complete == 0:
            last = np.repeat(frames[-1:], self.together - len(frames), axis=0)
            frames = np.concatenate([frames, last])
            complete = self.together
        return sample | dict(video=frames[:complete], frames=numbers[:complete])


@TRANSFORMS.register_module()
class EachFrame:
    """Apply image transforms to all frames of a clip, with the same random numbers for each."""

    def __init__(self, transforms: Sequence[dict[str, Any] | Transform]) -> None:
        self.transforms = [TRANSFORMS.create(t) if isinstance(t, dict) else t for t in transforms]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        state = rng.bit_generator.state
        changed = []
        for frame in sample["video"]:
            rng.bit_generator.state = state
            frame_sample: Sample = dict(image=Image.fromarray(frame), path=sample.get("path"))
            for transform in self.transforms:
                frame_sample = transform(frame_sample, rng)
            changed.append(np.asarray(frame_sample["image"]))
            foreign.check_size(sample.get("path", "a video"), 2 * changed[0].nbytes * len(sample["video"]))
        return sample | dict(video=np.stack(changed))


@TRANSFORMS.register_module()
class FlipVideo:
    """Flip left and right with probability `p`; `labels` has the class of each mirrored class."""

    def __init__(self, p: Share = 0.5, labels: Sequence[Natural] | None = None) -> None:
        self.p, self.labels = p, labels

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p:
            return sample
        if self.labels is not None and sample["label"] >= len(self.labels):
            raise DataError(
                f"FlipVideo expects labels below {len(self.labels)}, the length of `labels`, got {sample['label']}. "
                "Add the missing ones"
            )
        label = sample["label"] if self.labels is None or sample["label"] < 0 else self.labels[sample["label"]]
        return sample | dict(video=sample["video"][:, :, ::-1], label=label)


@TRANSFORMS.register_module()
class ShuffleFrames:
    """Control experiment: put frames in random order, so that nothing can be learned from motion."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return sample | dict(video=rng.permutation(sample["video"]))


@TRANSFORMS.register_module()
class StillFrame:
    """Control experiment: repeat a random frame of the clip, so that nothing moves."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        video = sample["video"]
        return sample | dict(video=np.repeat(video[rng.integers(len(video))][None], len(video), axis=0))


@TRANSFORMS.register_module()
class PackVideo(Pack):
    """Pack frames as a uint8 tensor (T, 3, H, W), which the model normalizes (last transform)."""

    input_name = "video"

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        video = sample["video"]
        if isinstance(video, Film):
            raise DataError("PackVideo needs frames: put a SampleFrames before it")
        packed = torch.from_numpy(np.ascontiguousarray(video.transpose(0, 3, 1, 2)))
        return dict(inputs=dict(video=packed), data_sample={k: v for k, v in sample.items() if k != "video"})

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """Draw some frames side by side, (H, W, 3) uint8."""
        video = sample.get("inputs", sample)["video"]
        if isinstance(video, Film):
            video, _ = video.frames(np.linspace(0, max(0, video.facts()["frames"] - 2), PICTURED).astype(int).tolist())
        elif isinstance(video, torch.Tensor):
            video = video.numpy().transpose(0, 2, 3, 1)
        index = np.linspace(0, len(video) - 1, min(PICTURED, len(video))).round().astype(int)
        return np.concatenate(list(video[index]), axis=1)
