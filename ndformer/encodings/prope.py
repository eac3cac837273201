"""PRoPE: relative camera projections on half of the channels, RoPE within the image on the other half."""

from typing import Any

from torch import Tensor

from ndformer.encodings.gta import GTA
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Rate


@ENCODINGS.register_module()
class PRoPE(GTA):
    """Projective encoding: GTA's attention, with the camera's projection K T on half of the channels (Li et al. 2025).

    So intrinsics count as well as poses: the blocks of a pair of tokens are P_i P_j^-1, P from `where.cameras`. The
    other half of the channels has the rotations of AxialRoPE. As in GTA, both also act on values and on the output.
    Without `where.cameras`, all tokens are in one camera, and half of the channels have no position.

    Paper: arXiv:2507.10496.
    """

    def __init__(self, *args: Any, cameras: Rate = 0.5, **kwargs: Any) -> None:
        super().__init__(*args, cameras=cameras, **kwargs)

    @property
    def default_base(self) -> float:
        return 100.0

    def block(self, cameras: Tensor) -> Tensor:
        return cameras
