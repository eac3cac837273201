"""Shards of a small image folder."""

import shutil

import pytest

from tests.framework.data.photos import pack, photos


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("photos")
    photos(home)
    return home, home.parent / "packed", pack(home, home.parent / "packed")


@pytest.fixture
def packed(made, tmp_path):
    """A copy of the shards, for damage."""
    return shutil.copytree(made[1], tmp_path / "packed")
