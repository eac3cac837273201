"""The same recording in each format gives the same result in the dataset, predict, peek and show_tokens."""

import importlib.util
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.evt_dat import write_dat
from tests.modalities.events.conftest import WRITERS, random_events
from tests.programs import CONFIGS, NO_WORKERS, SMALL
from tests.programs import run as start
from tools import peek, predict, show_tokens, train

CONFIG = CONFIGS / "custom_events.py"
TINY = [*SMALL, *NO_WORKERS, "model.head.classes=2", "train_cfg.max_epochs=1", "train_dataloader.batch_size=2"]
EVENTS = random_events(1500)
DAVIS = {"DAVIS240C": (180, 240), "DAVIS346B": (260, 346)}


def write_davis(path, camera, named):
    """The first event is in the corner, so that the size is known without the camera's name."""
    height, width = DAVIS[camera]
    x, y = width - 1 - EVENTS.x.astype(int), height - 1 - EVENTS.y.astype(int)
    body = np.stack([y << 22 | x << 12 | EVENTS.p.astype(int) << 11, EVENTS.t], 1).astype(">u4").tobytes()
    line = f"# AEChip: eu.seebetter.ini.chips.davis.{camera}\r\n".encode() * named
    path.write_bytes(b"#!AER-DAT2.0\r\n# made by a test\r\n" + line + body)


def write_dsec(path):
    import hdf5plugin  # pyright: ignore[reportMissingImports]

    with h5py.File(path, "w") as file:
        for name in "xytp":
            file.create_dataset(f"events/{name}", data=getattr(EVENTS, name), chunks=(500,), **hdf5plugin.Blosc("zstd"))
        file["t_offset"] = 0


def installed(name):
    return importlib.util.find_spec(name) is not None


def run(main, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start(main, *arguments)
    return [str(one.message) for one in caught if one.category is UserWarning]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model for recordings of 32 x 32 pixels, and one recording in each format."""
    home = tmp_path_factory.mktemp("events")
    for split in ("train", "test"):
        for label, name in enumerate(("a", "b")):
            (home / split / name).mkdir(parents=True)
            for i in range(3):
                write_dat(
                    home / split / name / f"{i}_td.dat",
                    random_events(1500, seed=100 * (split == "test") + 10 * label + i),
                )
    run(train.main, CONFIG, "--data-root", home, "--work-dir", home / "run", "--no-report", "--cfg-options", *TINY)
    files = home / "of_all" / "train" / "a"
    files.mkdir(parents=True)
    for name, write in WRITERS.items():
        if name != "l.aedat4" or installed("aedat"):
            write(files / name, EVENTS)
    for camera in DAVIS:
        write_davis(files / f"{camera}.aedat", camera, True)
        write_davis(files / f"{camera}_unnamed.aedat", camera, False)
    if installed("hdf5plugin"):
        write_dsec(files / "dsec.h5")
    return home


@pytest.fixture
def files(home):
    return sorted((home / "of_all" / "train" / "a").iterdir())


@pytest.mark.slow
def test_the_dataset_and_programs_get_the_same_tokens(home, files):
    cfg = load(CONFIG, TINY)
    prepared = Preparation(cfg, build_model(cfg))
    steps = cfg.test_dataloader.dataset.transforms
    dataset = DATASETS.create(
        dict(type="EventFolder", data_root=str(home / "of_all"), transforms=steps, val_is_test=True)
    )
    assert [Path(path) for path, _ in dataset.records] == files
    assert len(files) >= 15
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what names no camera
        of_dataset = [dataset[i]["inputs"]["events"] for i in range(len(files))]
        of_programs = [prepared.sample((path,))["inputs"]["events"] for path in files]
    assert len(of_dataset[0]) == 4
    for path, one, other in zip(files, of_dataset, of_programs):
        assert torch.equal(one, of_dataset[0]), path
        assert torch.equal(other, of_dataset[0]), path


def test_peek_counts_the_same_events(files, capsys):
    counts = set()
    for path in files:
        run(peek.main, path)
        told = capsys.readouterr().out
        lines = [line.split(None, 1) for line in told.splitlines() if line.startswith(("  events  ", "  x  ", "  y  "))]
        counts.add(tuple(value for _, value in lines))
        assert ("are assumed" in told) == ("unnamed" in path.name), told
    assert len(counts) == 1


def test_predict_answers_the_same_and_says_which_are_of_another_sensor(home, files, capsys):
    said = run(predict.main, home / "run" / "config.json", home / "run" / "best.pth", *files)
    lines = capsys.readouterr().out.splitlines()
    assert [Path(line.split("  ")[0]) for line in lines] == files
    assert len({line.partition("  ")[2] for line in lines}) == 1
    unlike = [one for one in said if "its prediction is unreliable" in one]
    others = [path for path in files if path.suffix in (".aedat", ".bin")]  # of 128, 180, 260 and 34 rows
    assert {one.split(" has a sensor ")[0] for one in unlike} == {str(path) for path in others}
    assert any(
        "has a sensor of 180 x 240 pixels, and the training data have a sensor of 32 x 32 pixels" in one
        for one in unlike
    )


@pytest.mark.slow
def test_show_tokens_shows_the_same(home, files, capsys, tmp_path):
    told = set()
    for path in files:
        run(show_tokens.main, CONFIG, path, "--out", tmp_path / "a.png", "--cfg-options", *TINY)
        told.add(capsys.readouterr().out.partition("SpikingPatches: ")[2])
    assert len(told) == 1
