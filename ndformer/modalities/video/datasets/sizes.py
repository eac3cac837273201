"""Sizes of the clips of a dataset after KeepAspect, from the headers of its videos."""

from typing import Any

from ndformer.framework.data.dataset import Dataset
from ndformer.modalities.image.datasets.sizes import preserve_size
from ndformer.modalities.image.transforms.aspect import KeepAspect
from ndformer.modalities.video.formats.frames import Film
from ndformer.modalities.video.transforms.videos import EachFrame, SampleFrames


class SizedVideos(Dataset):
    """Base class of datasets of videos whose sizes `batch_tokens` reads from the headers."""

    def film(self, record: Any) -> Film:
        """Return the video of a record, which is not decoded yet."""
        raise NotImplementedError

    def input_size(self, i: int) -> tuple[int, int, int] | None:
        """Return the largest frames, height and width of a clip; None if they are not known before it is decoded.

        They are if SampleFrames and an EachFrame that begins with KeepAspect come first, and the size stays.
        """
        match self.transforms:
            case [SampleFrames() as sampling, EachFrame(transforms=[KeepAspect() as first, *changes]), *later]:
                if not preserve_size([*changes, *later]):
                    return None
                film = self.film(self.records[i])
                facts = film.facts()
                size = first.largest_size(facts["height"], facts["width"], self.name(i))
                return sampling.count(facts["frames"]), *size
        return None
