"""GTA: representations of a token's camera and position on queries, keys, values and attention's output."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ndformer.encodings.rotary import CosSin, RotaryND
from ndformer.encodings.rotary_directions import FIXED
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.rotation import rotate
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Positive, Rate
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class GTA(RotaryND):
    """Geometric transform attention: key and value of token j act as D_i D_j^-1 k_j and D_i D_j^-1 v_j for query i.

    D_i is block diagonal (Miyato et al. 2024). A share `cameras` of the channels has 4 x 4 blocks, the pose of the
    token's camera (SE(3)) from `where.cameras`, without intrinsics and with translations times `camera_scale`. All
    others, or their share `channels`, have 2 x 2 rotations by w_f'r of the position r, as RotaryND without `learned`: n
    pairs for each axis with the authors' octaves, w = base^(-f/n) with base 2^n. Without cameras, all tokens are in one
    camera. Tokens without a position have the identity.

    Paper: arXiv:2310.10375.
    """

    def __init__(
        self,
        *args: Any,
        cameras: Rate = 0.0,
        camera_scale: Positive | None = None,
        **kwargs: Any,
    ) -> None:
        self.cameras, self.camera_scale = cameras, camera_scale or 1.0
        super().__init__(*args, **kwargs)
        if self.learned or self.tiled or self.directions not in FIXED:
            name = type(self).__name__
            raise ValueError(
                f"{name} has fixed frequencies along fixed directions ({', '.join(FIXED)}), got learned={self.learned} "
                f"and directions={self.directions!r}. Leave them out, or use RotaryND"
            )
        self.uses_cameras = self.camera_dim > 0
        if cameras and not self.uses_cameras:
            raise ValueError(
                f"cameras={cameras:g} of a head of {self.head_dim} channels are less than one block of 4. Set "
                f"cameras={4 / self.head_dim:g} or more, or 0"
            )
        if camera_scale is not None and not self.uses_cameras:
            raise ValueError(
                f"camera_scale needs channels with cameras, got cameras={cameras:g} of a head of {self.head_dim}. Set "
                "cameras=0.5, or leave camera_scale out"
            )

    @property
    def default_base(self) -> float:
        return 2.0**self.steps

    @property
    def camera_dim(self) -> int:
        return int(self.cameras * self.head_dim) // 4 * 4

    def tables(self, positions: Tensor, where: Where) -> "Transforms":
        table: CosSin = super().tables(positions, where)
        if where.cameras is None or self.camera_dim == 0:
            return Transforms(table, None, None)
        camera = where.cameras.double()  # constants are made on its device: CUDA graphs may not copy from the host
        if where.real is not None:
            identity = torch.eye(4, dtype=camera.dtype, device=camera.device)
            camera = torch.where(where.real[..., None, None], camera, identity)
        camera = self.block(camera)
        scale = torch.cat([camera.new_ones(3), camera.new_full((1,), self.camera_scale)])
        camera = camera * (scale / scale[:, None])  # translations, in the last column, times the scale
        inverse = torch.linalg.inv_ex(camera).inverse  # without a device synchronization
        dtype = where.positions.dtype
        return Transforms(table, camera[:, None].to(dtype), inverse[:, None].to(dtype))

    def block(self, cameras: Tensor) -> Tensor:
        """Return the 4 x 4 blocks of D from `where.cameras`: their rigid part."""
        return rigid(cameras)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return TransformLayer(self.camera_dim, self.halves)


def rigid(cameras: Tensor) -> Tensor:
    """Return the poses T (..., 4, 4) of cameras K T, with an upper triangular K of positive diagonal and K_33 > 0.

    The upper left block is K R, so its square K R R'K' = K K' gives K, by Cholesky's decomposition in reverse order.
    """
    linear = cameras[..., :3, :3]
    square = (linear @ linear.mT).flip(-1, -2)
    lens = torch.linalg.cholesky_ex(square).L.flip(-1, -2)
    pose = torch.linalg.solve_triangular(lens, cameras[..., :3, :], upper=True)
    return torch.cat([pose, cameras[..., 3:, :]], -2)


class Transforms(NamedTuple):
    """The state: D of each token, shared by all layers."""

    table: CosSin  # (B, 1, N, pairs)
    camera: Tensor | None  # (B, 1, N, 4, 4)
    inverse: Tensor | None


class TransformLayer(LayerEncoding):
    """D_i^T on queries, D_j^-1 on keys and values, and D_i on the output: only D_i D_j^-1 has an effect."""

    def __init__(self, camera_dim: int, halves: bool) -> None:
        super().__init__()
        self.camera_dim, self.halves = camera_dim, halves

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Transforms) -> tuple[Tensor, Tensor]:
        scale = state.table.logit_scale
        q = q if scale == 1 else q * scale
        transposed = None if state.camera is None else state.camera.mT
        return self._transform(q, transposed, state, -1), self._transform(k, state.inverse, state, -1)

    def values(self, v: Tensor, x: Tensor, state: Transforms) -> Tensor:
        return self._transform(v, state.inverse, state, -1)

    def output(self, y: Tensor, x: Tensor, state: Transforms) -> Tensor:
        return self._transform(y, state.camera, state, 1)

    def _transform(self, x: Tensor, block: Tensor | None, state: Transforms, sign: int) -> Tensor:
        """Multiply channels of x (B, H, N, h) by `block`, and rotate the others by their angles times `sign`."""
        first, others = x.split([self.camera_dim, x.shape[-1] - self.camera_dim], -1)
        rotated = rotate(others, state.table.cos, state.table.sin * sign, self.halves)
        if self.camera_dim == 0:
            return rotated
        if block is not None:
            blocks = first.unflatten(-1, (-1, 4)).to(block.dtype)  # (B, H, N, blocks, 4)
            first = (blocks @ block.mT).flatten(-2).to(x.dtype)
        return torch.cat([first, rotated], -1)
