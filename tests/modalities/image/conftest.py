import numpy as np
import pytest
from PIL import Image

from ndformer.framework.registry import STAND_INS


@pytest.fixture(scope="session")
def sample_root(tmp_path_factory):
    """name -> the folder of its generated stand-in, made once."""
    made = {}

    def root(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            STAND_INS.get(name)().write(made[name])
        return made[name]

    return root


@pytest.fixture
def photo():
    """height, width, mode -> an image with smooth parts, edges and noise."""

    def make(height=40, width=56, mode="RGB", seed=0):
        rng = np.random.default_rng(seed)
        coarse = rng.integers(50, 206, (5, 7, 3)).astype(np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        return Image.fromarray((smooth + rng.integers(-9, 10, smooth.shape)).clip(0, 255).astype(np.uint8)).convert(
            mode
        )

    return make
