"""docs/get-started/custom-recordings.md: its commands."""

import json

import numpy as np
import pytest

from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.formats.files import read_events
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.video.stand_ins.ucf101 import write_avi
from tests.docs.pages import DOCS, SHORT, code_of, commands_of, run

PAGE = (DOCS / "get-started" / "custom-recordings.md").read_text()
COMMANDS = commands_of(PAGE)
SIDES = ("left", "right")
TINY = ["--cfg-options", "model.backbone.dim=24", "model.backbone.depth=1", *SHORT]


def video(path, side, number):
    """A bright square that moves to one side."""
    frames = np.full((44, 48, 64, 3), 30 + number, np.uint8)
    for i, frame in enumerate(frames):
        at = i if side == "right" else 44 - i
        frame[16:32, at : at + 16] = 200
    write_avi(path.with_suffix(".avi"), frames)


def recording(path, side, number):
    """An edge that moves to one side for half a second, with large time stamps."""
    rng = np.random.default_rng(number)
    t = np.sort(rng.integers(0, 500_000, 3000))
    x = (t if side == "right" else 500_000 - t) // 8000
    zeros = np.zeros(3000, int)
    events = Events.from_arrays(x, rng.integers(0, 48, 3000), t + 2_000_000_000, zeros + 1, 48, 64)
    if number % 2:  # formats may be mixed
        np.savez(path.with_suffix(".npz"), x=events.x, y=events.y, t=events.t, p=events.p)
    else:
        write_dat(path.with_suffix(".dat"), events)


KINDS = dict(custom_videos=video, custom_events=recording)


@pytest.fixture(params=KINDS)
def mine(request, tmp_path, monkeypatch):
    for split, count in (("train", 6), ("test", 2)):
        for side in SIDES:
            (tmp_path / "data/mine" / split / side).mkdir(parents=True)
            for number in range(count):
                drawn = number + 10 * (split == "test")
                KINDS[request.param](tmp_path / "data/mine" / split / side / str(number), side, drawn)
    monkeypatch.chdir(tmp_path)
    return request.param, tmp_path


@pytest.mark.slow
def test_three_commands_from_a_folder_to_what_is_in_new_files(mine, capsys):
    kind, home = mine
    commands = [command for command in COMMANDS if kind in command[1]]
    assert [command[0] for command in commands] == ["browse_dataset", "train", "predict"]
    look, fit, ask = commands
    run(look, *TINY)
    assert (home / "sheet.png").stat().st_size > 2_000
    run(fit, *TINY, "--no-report")
    assert "accuracy" in json.loads((home / "work_dirs" / kind / "results.json").read_text())["test"]
    (home / "data/mine/test/left").rename(home / "new")
    capsys.readouterr()
    run(ask)
    assert any(side in capsys.readouterr().out for side in SIDES)
    assert len(list((home / "seen").iterdir())) == 2


def test_its_table_of_events_is_one_of_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(code_of(PAGE)[0], dict(x=[3, 4], y=[5, 6], t=[7_000_000_000, 8_000_000_000], p=[0, 1]))
    found = read_events(tmp_path / "recording.npy")
    assert [column.tolist() for column in (found.x, found.y, found.t, found.p)] == [
        [3, 4], [5, 6], [7_000_000_000, 8_000_000_000], [0, 1]
    ]  # fmt: skip
