"""Hostile files in a process that is watched, some of each kind and program: tests/soak/foreign.py has hundreds."""

import os
import pickle
import socket
import subprocess

import pytest

from tests.framework.foreign.test_plain import EPS
from tests.soak import driven
from tests.soak.hostile import Runs, checkpoints, crafted
from tests.soak.watched import Watch, judged

PEEKED = {
    *("npy many.npy", "npz bomb.npz", "mat lie.mat", "gz amany.gz", "pickle qsystem", "escapes a.ply", "fifo e.avi"),
    *("hdf5 linkxsecret.h5", "hdf5 virtualxpipe.h5", "hdf5 externalxsecret.h5", "hdf5 bombx.h5"),
    *("ply b1000000000000" + str(len("list int float v")) + ".ply", "ply a1000000000000" + str(len("float x")) + ".ply"),
    *("events packets.aedat", "events lie.aedat", "events comments.dat", "text counts.off"),
    *("video concatsecret", "video aviconcatsecret", "video m3u8pipe"),
}


@pytest.fixture
def outside(tmp_path_factory):
    """A folder in which nothing may be opened or made, and a secret and a pipe in it."""
    found = tmp_path_factory.mktemp("outside")
    (found / "secret").write_bytes(bytes(64))
    os.mkfifo(found / "pipe")
    return found
