"""Packing of a pair of grids: the input as a canvas, the output as a label for each of its cells."""

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Side
from ndformer.modalities.arc.formats.canvas import laid
from ndformer.modalities.arc.pictures.grids import draw_symbols


@TRANSFORMS.register_module()
class PackGrid(Pack):
    """Pack the grid `arc` as a canvas of `canvas` x `canvas` symbols, and `output`, if given, alike as `labels`."""

    input_name = "arc"

    def __init__(self, canvas: Side = 31) -> None:
        self.canvas = canvas

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        data_sample = {name: value for name, value in sample.items() if name not in ("arc", "output")}
        if sample.get("output") is not None:
            data_sample["labels"] = torch.from_numpy(laid(sample["output"], self.canvas)).long()
        return dict(inputs=dict(arc=torch.from_numpy(laid(sample["arc"], self.canvas))), data_sample=data_sample)

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        return draw_symbols(np.asarray(sample.get("inputs", sample)["arc"]))
