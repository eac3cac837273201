"""Mix3D (Nekrasov 2021): two scenes overlaid, so that objects are recognized outside of their usual context."""

from typing import Any

import torch
from torch import Tensor

from ndformer.framework.data.mixer import Mixer
from ndformer.framework.registry import MIXERS
from ndformer.framework.registry.ranges import Share


@MIXERS.register_module()
class Mix3D(Mixer):
    """With probability `p`, join the scenes of a batch in pairs: 1 with 2, 3 with 4 ...

    The backbone computes the voxels of the joined scene from the positions of both.
    """

    def __init__(self, p: Share = 0.8) -> None:
        self.p = p

    def __call__(self, inputs: dict[str, Any], targets: list[Tensor]) -> tuple[dict[str, Any], list[Tensor]]:
        """Mix `inputs['points']`, B clouds (n, C), and `targets`, the labels (n,) of each."""
        if torch.rand(()) >= self.p:
            return inputs, targets
        pairs = [slice(i, i + 2) for i in range(0, len(targets), 2)]
        clouds = list(inputs["points"])
        mixed = [torch.cat(clouds[pair]) for pair in pairs]
        return inputs | dict(points=mixed), [torch.cat(targets[pair]) for pair in pairs]
