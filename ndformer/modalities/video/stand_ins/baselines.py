"""Simple baselines on videos, without the order of frames: logistic regression, in numpy.

A dataset is useful for testing a model of motion where these score low.
"""

from collections.abc import Iterable

import numpy as np
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.evaluation.simple import accuracies
from ndformer.modalities.image.stand_ins.baselines import statistics
from ndformer.modalities.video.transforms.videos import SampleFrames

SIZE = (16, 12)  # of small frames, columns and rows


def frames(dataset: Dataset) -> np.ndarray:
    """Return the PaPE paper's frames of each video, small, (N, T, 12, 16, 3) in 0..1; short videos are padded."""
    sample, clips = SampleFrames(), []
    for record in dataset.records:
        video = sample(dataset.read(record), np.random.default_rng(0))["video"]
        small = [np.asarray(Image.fromarray(frame).resize(SIZE, Image.Resampling.BOX)) for frame in video]
        clips.append(np.stack(small + small[-1:] * (len(sample.pattern) - len(small))))
    return np.stack(clips).astype(np.float32) / 255


def baselines(train: Dataset, test: Dataset) -> Iterable[tuple[str, float]]:
    clips, test_clips = frames(train), frames(test)
    rng = np.random.default_rng(0)
    any_frame = lambda x: x[np.arange(len(x)), rng.integers(x.shape[1], size=len(x))].reshape(len(x), -1)
    features = {
        "color statistics of all frames": lambda x: statistics(x.reshape(len(x), -1, *x.shape[3:])),
        "first frame": lambda x: x[:, 0].reshape(len(x), -1),
        "a frame at random": any_frame,
        "mean frame": lambda x: x.mean(1).reshape(len(x), -1),
        "mean and deviation over the frames": lambda x: np.stack([x.mean(1), x.std(1)], 1).reshape(len(x), -1),
    }
    described = ((name, describe(clips), describe(test_clips)) for name, describe in features.items())
    return accuracies(described, train.labels, test.labels)
