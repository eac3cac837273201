"""Packing a pair of grids: the input as a canvas for the model, the output as a label for each of its cells."""

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Side
from ndformer.modalities.arc.formats.canvas import laid
from ndformer.modalities.arc.pictures.grids import drawn


@TRANSFORMS.register_module()
class PackGrid(Pack):
    """The last one: `arc`, a grid, becomes a canvas of `canvas` x `canvas` symbols (formats/canvas.py); `output`, where
    it is known, is laid on one likewise and becomes `labels`."""

    input_name = "arc"

    def __init__(self, canvas: Side = 31) -> None:
        self.canvas = canvas

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        rest = {name: value for name, value in sample.items() if name not in ("arc", "output")}
        if sample.get("output") is not None:
            rest["labels"] = torch.from_numpy(laid(sample["output"], self.canvas)).long()
        return dict(inputs=dict(arc=torch.from_numpy(laid(sample["arc"], self.canvas))), data_sample=rest)

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        return drawn(np.asarray(sample.get("inputs", sample)["arc"]))
