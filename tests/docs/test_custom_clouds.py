"""docs/get-started/custom-clouds.md: its commands, on clouds and scenes in several formats."""

import re
import struct

import numpy as np
import pytest

from tests.docs.pages import DOCS, NO_WORKERS, commands_of, run

PAGE = (DOCS / "get-started" / "custom-clouds.md").read_text()
COMMANDS = commands_of(PAGE)
TINY = dict(
    custom_clouds=["model.backbone.dim=24", "model.backbone.depth=1", "model.modalities.points.centers=8"],
    custom_scenes=["train_dataloader.loops=1", "model.backbone.window=32"],
)


def thing(path, side, number):
    cloud = np.random.default_rng(number).random((1200, 3)) * ((1, 1, 0.2) if side == "flat" else (0.2, 0.2, 1))
    if number % 2:
        np.savetxt(path.with_suffix(".xyz"), cloud, "%.4f")
    else:
        names = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 1200\nHEIGHT 1\nPOINTS 1200\nDATA binary\n"
        path.with_suffix(".pcd").write_bytes(b"VERSION 0.7\n" + names.encode() + cloud.astype("<f4").tobytes())


def scene(path, number, labeled=True):
    """A floor, a wall and a red object in UTM coordinates."""
    rng = np.random.default_rng(number)
    label = rng.integers(0, 3, 900)
    places = rng.random((900, 3)) * np.array([(2, 2, 0.01), (2, 0.01, 2), (0.3, 0.3, 0.3)])[label]
    places += (500_000, 5_400_000, 90)
    rows = "".join(f"property double {axis}\n" for axis in "xyz") + "".join(
        f"property uchar {name}\n" for name in ("red", "green", "blue", "label")[: 3 + labeled]
    )
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex 900\n{rows}end_header\n"
    body = b"".join(
        struct.pack("<3d", *place) + bytes([200 * (one == 2), 90, 90, one][: 3 + labeled])
        for place, one in zip(places, label)
    )
    path.with_suffix(".ply").write_bytes(head.encode() + body)


@pytest.fixture(params=TINY)
def mine(request, tmp_path, monkeypatch):
    home = tmp_path / "data/mine"
    for split, count in (("train", 4), ("test", 2)):
        (home / split).mkdir(parents=True)
        for number in range(10 * (split == "test"), 10 * (split == "test") + count):
            if request.param == "custom_scenes":
                scene(home / split / f"room{number}", number)
                continue
            for side in ("flat", "tall"):
                (home / split / side).mkdir(exist_ok=True)
                thing(home / split / side / str(number), side, number)
    (home / "classes.txt").write_text("floor\nwall\nthing\n")
    (tmp_path / "new").mkdir()
    if request.param == "custom_scenes":
        scene(tmp_path / "new/a", 9, labeled=False)
    else:
        thing(tmp_path / "new/a", "flat", 9)
        thing(tmp_path / "new/b", "tall", 8)
    monkeypatch.chdir(tmp_path)
    return request.param


@pytest.mark.slow
def test_its_three_commands_work_on_folders_of_ones_own(mine, tmp_path, capsys):
    look, fit, ask = (command for command in COMMANDS if mine in command[1])
    options = ["--cfg-options", *TINY[mine], *NO_WORKERS]
    run(look, *options)
    assert (tmp_path / "sheet.png").stat().st_size > 2_000
    run(fit, *options, "train_cfg.max_epochs=1", "train_dataloader.batch_size=2", "--no-report")
    capsys.readouterr()
    run(ask)
    assert re.search(r"new/a\.(ply|xyz)", capsys.readouterr().out)
    seen = {path.name for path in (tmp_path / "seen").iterdir()}
    assert seen == {"a.png", "a_prediction.ply"} if mine == "custom_scenes" else len(seen) == 2
