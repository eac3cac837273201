"""Transforms of molecules: random rotations, and the pack.

sample["molecules"] (n, 4) has rows of atomic number, x, y and z; (n, 5) also has charges.
"""

import numpy as np
import torch

from ndformer.framework.data.components import rotate
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Count, Seed
from ndformer.modalities.molecules.formats.elements import KINDS
from ndformer.modalities.molecules.pictures.balls import draw


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    """Return a rotation matrix (3, 3), uniform over all rotations: that of a random unit quaternion."""
    a, b, c, d = (q := rng.standard_normal(4)) / np.sqrt(q @ q)
    return np.array(
        [
            [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
            [2 * (b * c + a * d), a * a - b * b + c * c - d * d, 2 * (c * d - a * b)],
            [2 * (b * d - a * c), 2 * (c * d + a * b), a * a - b * b - c * c + d * d],
        ]
    )


@TRANSFORMS.register_module()
class RotateAtoms:
    """Rotate a molecule about its center by a random rotation, uniform over all rotations.

    Targets that are vectors or tensors, whose `components` the sample has, rotate with it.

    With `fixed`, the rotations are that many, drawn once with `seed`, and a sample has the one of its number: a test
    set whose molecules are turned, the same for all models.
    """

    def __init__(self, fixed: Count | None = None, seed: Seed = 0) -> None:
        rng = np.random.default_rng(seed)
        self.fixed = None if fixed is None else [random_rotation(rng) for _ in range(fixed)]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        molecule = sample["molecules"].copy()
        turn = random_rotation(rng) if self.fixed is None else self.fixed[sample["index"] % len(self.fixed)]
        molecule[:, 1:4] = molecule[:, 1:4] @ turn.T.astype(np.float32)
        turned = dict(molecules=molecule)
        if sample.get("components"):
            turned["targets"] = rotate(sample["targets"], sample["components"], turn)
        return sample | turned


@TRANSFORMS.register_module()
class PackAtoms(Pack):
    """Pack a molecule as a tensor (n, 4), or (n, 5) with charges, with its `composition`: the atoms of each element."""

    input_name = "molecules"

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        molecule = sample["molecules"]
        data_sample = {name: value for name, value in sample.items() if name != "molecules"}
        data_sample["composition"] = np.bincount(molecule[:, 0].astype(np.int64), minlength=KINDS)  # (KINDS,)
        return dict(inputs=dict(molecules=torch.from_numpy(molecule)), data_sample=data_sample)

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        return draw(np.asarray(sample.get("inputs", sample)["molecules"]))
