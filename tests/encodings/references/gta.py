"""GTA: out_i = sum_j softmax_j(q_i' D_i D_j^-1 k_j / sqrt(h)) D_i D_j^-1 v_j, with D as one matrix."""

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class GTA(Reference):
    @property
    def share(self) -> float:
        return self.cfg.get("cameras", 0.0)

    def camera(self, n: int) -> Tensor:
        """The pose of token n: the rigid T of a camera K T, whose K is known to be K = A R' where T = (R, t)."""
        P = torch.eye(4).double() if self.cameras is None else self.cameras[n]
        lens, rotation = rq(P[:3, :3])
        pose = torch.eye(4).double()
        pose[:3, :3], pose[:3, 3] = rotation, lens.inverse() @ P[:3, 3]
        return pose

    def angles(self) -> list[Tensor]:
        """(n,) for each pair of channels: r_p 2^-f."""
        n = self.pairs_per_axis
        return [self.r[:, p] * self.turns(2.0**-f, p) for p in self.order for f in range(n)]

    @property
    def pairs_per_axis(self) -> int:
        return int((self.width - self.blocks * 4) * self.cfg.get("channels", 1)) // 2 // self.dims

    @property
    def order(self) -> list[int]:
        return self.cfg.get("axes") or list(range(self.dims))

    @property
    def blocks(self) -> int:
        return int(self.share * self.width) // 4

    def matrices(self) -> list[Tensor]:
        angles, result = self.angles(), []
        for n in range(len(self.r)):
            D = torch.eye(self.width).double()
            if self.placed[n] and self.blocks:
                camera = self.camera(n)
                camera[:3, 3] *= self.cfg.get("camera_scale", 1.0)
                for b in range(self.blocks):
                    D[4 * b : 4 * b + 4, 4 * b : 4 * b + 4] = camera
            for f, angle in enumerate(angles):
                at, a = 4 * self.blocks + 2 * f, angle[n]
                D[at, at], D[at, at + 1], D[at + 1, at], D[at + 1, at + 1] = a.cos(), -a.sin(), a.sin(), a.cos()
            result.append(D)
        return result

    def relative(self) -> Tensor:
        """(n, n, width, width): D_i D_j^-1."""
        D = self.matrices()
        return torch.stack([torch.stack([a @ b.inverse() for b in D]) for a in D])

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("ic,ijcd,jd->ij", q, self.relative(), k)

    def collected(self, h: int, weights: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("ij,ijcd,jd->ic", weights, self.relative(), v)


def rq(A: Tensor) -> tuple[Tensor, Tensor]:
    """K upper triangular with a positive diagonal and R orthogonal with A = K R, by Gram-Schmidt from the last row."""
    rows: list[Tensor] = []
    for row in A.flip(0):
        for unit in rows:
            row = row - (row @ unit) * unit
        rows.append(row / row.norm())
    R = torch.stack(rows[::-1])
    return A @ R.T, R


def random_cameras(*size: int) -> Tensor:
    """(*size, 4, 4) float64: cameras within 2 of the origin, each with a focal length and a center of its own."""
    rotation = torch.linalg.qr(torch.randn(*size, 3, 3).double()).Q
    rotation = rotation * torch.linalg.det(rotation)[..., None, None]
    pose = torch.eye(4).double().repeat(*size, 1, 1)
    pose[..., :3, :3], pose[..., :3, 3] = rotation, 4 * torch.rand(*size, 3).double() - 2
    lens = torch.eye(4).double().repeat(*size, 1, 1)
    lens[..., 0, 0], lens[..., 1, 1] = (0.5 + torch.rand(2, *size)).double().unbind()
    lens[..., 0, 2], lens[..., 1, 2] = (0.2 * torch.randn(2, *size)).double().unbind()
    return lens @ pose


CASES = {"GTA": dict(type="GTA"), "GTA cameras": dict(type="GTA", cameras=0.5, camera_scale=0.5)}
