"""Simulated LiDAR (ray casting): the first box or the ground that each ray meets."""

import numpy as np

BEAMS, AROUND = 20, 200  # vertical and horizontal number of rays
LOW, HIGH = -26.0, 4.0  # degrees of the lowest and the highest beam
FAR, NOISE = 45.0, 0.02  # metres


def rays() -> np.ndarray:
    """Return unit directions (R, 3)."""
    up = np.deg2rad(np.linspace(LOW, HIGH, BEAMS))[:, None]
    turn = np.linspace(0, 2 * np.pi, AROUND, endpoint=False)[None]
    flat = np.cos(up) * np.ones_like(turn)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), np.sin(up) * np.ones_like(turn)], -1).reshape(-1, 3)


def scan(boxes: np.ndarray, height: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scan boxes with a sensor that is upright at `height` above the ground; boxes and points are in its frame.

    Return points (n, 5) float32 x, y, z, intensity, ring, and the box of each point (n,), -1 for the ground.
    """
    directions = rays()
    depth = np.where(directions[:, 2] < 0, -height / np.minimum(directions[:, 2], -1e-9), np.inf)
    hit = np.full(len(directions), -1)
    c, s = np.cos(boxes[:, 6]), np.sin(boxes[:, 6])
    for k, box in enumerate(boxes):
        turn = np.array([[c[k], s[k], 0], [-s[k], c[k], 0], [0, 0, 1]])  # to the frame of the box
        start, step, half = turn @ -box[:3], directions @ turn.T, box[[4, 3, 5]] / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            entry, exit_ = (-half - start) / step, (half - start) / step
        near, far = np.minimum(entry, exit_).max(1), np.maximum(entry, exit_).min(1)
        met = (near <= far) & (near > 0) & (near < depth)
        depth[met], hit[met] = near[met], k
    in_range = depth < FAR * (1 - 0.1 * rng.random(len(depth)))
    places = directions[in_range] * (depth[in_range] + rng.normal(0, NOISE, in_range.sum()))[:, None]
    ring = np.repeat(np.arange(BEAMS), AROUND)[in_range]
    intensity = rng.integers(0, 60, in_range.sum())  # carries no information
    return np.column_stack([places, intensity, ring]).astype(np.float32), hit[in_range]
