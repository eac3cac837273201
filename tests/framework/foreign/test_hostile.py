"""Hostile files in a watched process, a few of each kind; tests/soak/foreign.py has hundreds."""

import os
import pickle
import socket
import subprocess
import sys
import time

import pytest

from ndformer.framework.errors import DataError
from tests.framework.foreign.test_plain import EPS
from tests.soak import driven, watched
from tests.soak.hostile import crafted
from tests.soak.hostile_checkpoints import Runs, checkpoints
from tests.soak.watched import BYTES, Watch, judged, prepare

NAMES = {  # of each kind, what takes the shortest
    "npy": ("many.npy", "code.npy", "objects.npy"),
    "npz": ("rows.npz",),
    "gz": ("a.gz", "amany.gz"),
    "pickle": ("qsystem", "qeval"),
    "hdf5": ("linkxsecret.h5", "virtualxpipe.h5", "externalxsecret.h5", "claimx.h5"),
    "ply": ("b100000000000029.ply", "a10000000000007.ply"),
    "events": ("large_a.raw", "large_d.bin"),
    "text": ("counts.off",),
    "pcd": ("binary.pcd", "bomb.pcd"),
    "las": ("many.las", "many.laz"),
    "model": ("names.glb", "count.stl"),
    "fifo": ("a.h5", "a.avi"),
    "escapes": ("\x1b[31m\na.ply",),
}


@pytest.fixture
def outside(tmp_path_factory):
    """A folder outside, with a secret and a pipe, in which nothing may be opened or created."""
    found = tmp_path_factory.mktemp("outside")
    (found / "secret").write_bytes(bytes(64))
    os.mkfifo(found / "pipe")
    return found


def outcomes(calls, inside, outside):
    watch = Watch(outside)
    for name, call in calls:
        watch.seen()
        yield name, judged(call, inside) + " OUTSIDE" * watch.seen()


def peeked(kind, outside, home, names):
    for _, name, made in crafted(outside, kind.__eq__):
        if name in names:
            driven.placed(home / name, made)
            yield name, driven.peeked(home / name)


@pytest.mark.parametrize("kind", NAMES)
def test_hostile_files_run_nothing_open_nothing_and_are_a_sentence(kind, tmp_path, outside):
    found = dict(outcomes(peeked(kind, outside, tmp_path, NAMES[kind]), tmp_path, outside))
    assert found == dict.fromkeys(NAMES[kind], "said")


def test_lists_of_other_files_named_as_video_open_none(tmp_path, outside):
    files = [name for _, name, _ in crafted(outside, "video".__eq__) if name.endswith(".avi")]
    begins = ("concatsecret", "aviconcatpipe", "m3u8x")
    some = [next(name for name in files if name.startswith(begin)) for begin in begins]
    found = dict(outcomes(peeked("video", outside, tmp_path, some), tmp_path, outside))
    assert found == dict.fromkeys(some, "said")


@pytest.mark.slow
def test_programs_on_hostile_pictures_and_weights_end_with_a_sentence(tmp_path, outside):
    prepare()
    calls = dict(driven.sets("picture", [("a.jpg", EPS)], tmp_path))
    calls = {name: call for name, call in calls.items() if name.endswith("a.jpg")}
    driven.placed(tmp_path / "picture0" / "train/a/0.png", EPS)
    assert dict(outcomes(calls.items(), tmp_path, outside)) == dict.fromkeys(calls, "said")
    assert len(calls) == 4
    (tmp_path / "picture0" / "train/a/0.png").unlink()
    good = driven.weights("imagefolder_pape", tmp_path / "good.pth")
    for name, content in checkpoints(good, outside):
        if name in ("runs.pth", "pickled.pth", "claim.safetensors"):
            given = list(driven.given_weights(content, tmp_path / name, tmp_path / "picture0", tmp_path))
            assert dict(outcomes(given, tmp_path, outside)) == {told: "said" for told, _ in given}


def test_the_watch_reports_each_kind_of_fault(tmp_path, outside):
    faults = {
        "FORBIDDEN os.system": lambda: os.system("true"),
        "FORBIDDEN subprocess.Popen": lambda: subprocess.run(["true"], check=True),
        "FORBIDDEN socket.": lambda: socket.create_connection(("127.0.0.1", 9), 1),
        "FORBIDDEN open /etc/passwd": lambda: open("/etc/passwd").close(),
        "OUTSIDE": lambda: pickle.loads(pickle.dumps(Runs(outside / "ran"))),
        "PRINTED": lambda: print("\x1b[2J"),
        "PRINTED ": lambda: os.write(2, b"a library speaks\n"),
        "TRACEBACK ZeroDivisionError": lambda: 1 / 0,
        "MEMORY": lambda: b"1" * (BYTES * 9 // 8),
        "CRASH -9": lambda: os.kill(os.getpid(), 9),
        "EXIT 2": lambda: sys.exit(2),
        "UNPRINTABLE": lambda: raises(DataError("a \x1b[2J")),
    }
    found = dict(outcomes(faults.items(), tmp_path, outside))
    assert [(sign, said) for sign, said in found.items() if sign.strip() not in said] == []


def raises(error):
    raise error


def spin() -> None:
    while True:
        pass


@pytest.mark.parametrize(("call", "limit"), [(spin, "SECONDS"), (lambda: time.sleep(60), "WAIT")])
def test_a_program_that_computes_or_waits_too_long_hangs(call, limit, monkeypatch, tmp_path):
    """Time on the clock would blame a busy machine on a file."""
    monkeypatch.setattr(watched, limit, 1)
    assert judged(call, tmp_path).startswith(" HANG after")
