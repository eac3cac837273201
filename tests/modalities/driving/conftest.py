"""A small generated nuScenes: two scenes of mini_train and one of mini_val, three moments each."""

import shutil

import pytest

from ndformer.modalities.driving.stand_ins.nuscenes import Writer


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("nuscenes") / "made"
    home.mkdir()
    Writer(home, 0, "v1.0-mini").write(train=2, val=1, moments=3)
    return home


@pytest.fixture
def home(made, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(made, tmp_path / "nuscenes")
