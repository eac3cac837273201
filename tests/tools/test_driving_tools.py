"""predict, show_tokens, show_attention and explore on driving data: samples of a dataset and single scans."""

import json
import re
import shutil
from functools import partial

import numpy as np
import pytest

from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import picture
from ndformer.modalities.driving.datasets.files import read_file
from ndformer.modalities.driving.formats.classes import CLASSES
from ndformer.modalities.driving.stand_ins.nuscenes import Writer
from tests.programs import CONFIGS, run, save_untrained
from tools import explore, predict, show_attention, show_tokens, test

BODY = ["model.backbone.dim=16", "model.backbone.backend=sdpa", "model.backbone.heads=2", "model.backbone.encoding.m=4"]
NECK = [f"model.head.neck.{one}" for one in ("blocks=(1,1,1)", "widths=(8,8,8)", "up=8")]
LOADERS = [f"{one}_dataloader.dataset.version=v1.0-mini" for one in ("train", "val", "test")]
BOTH = ("nuscenes_pape", [*BODY, *NECK, "model.head.width=8", "model.head.least_score=0.0", *LOADERS])
ALONE = ("custom_lidar", [*BODY, *NECK, "model.head.width=8", "model.head.least_score=0.0"])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    (home / "nuscenes").mkdir()
    Writer(home / "nuscenes", 0, "v1.0-mini").write(train=0, val=1, moments=2)
    scan = sorted((home / "nuscenes/samples/LIDAR_TOP").iterdir())[1]
    shutil.copy(scan, home / "alone.pcd.bin")
    np.fromfile(scan, "<f4").reshape(-1, 5)[:, :4].tofile(home / "plain.bin")
    for name, options in (BOTH, ALONE):
        classes = CLASSES if name == "nuscenes_pape" else ["car", "lorry", "cycle", "person"]
        save_untrained(home / f"{name}.pth", load(CONFIGS / f"{name}.py", options, sample=True), classes)
    return home


@pytest.fixture
def scan(home):
    return sorted((home / "nuscenes/samples/LIDAR_TOP").iterdir())[1]


@pytest.fixture
def start(home, monkeypatch, tmp_path, capsys):
    """Return a function that runs a program in an empty folder and returns its output."""

    def start(tool, kind, *words, weights=True):
        name, options = kind
        monkeypatch.chdir(tmp_path)
        trained = [home / f"{name}.pth"] if weights else []
        run(tool.main, CONFIGS / f"{name}.py", *trained, *words, "--sample", "--cfg-options", *options)
        return capsys.readouterr().out

    return start


def test_a_scan_of_a_data_root_is_its_sample_and_another_one_is_alone(home, scan):
    whole = read_file(scan, sweeps=3)
    assert len(np.unique(whole["points"][:, 4])) == 3
    assert whole["seen"].all()
    assert len(whole["boxes"])
    alone = read_file(home / "alone.pcd.bin")
    np.testing.assert_array_equal(alone["points"][:, :4], np.fromfile(scan, "<f4").reshape(-1, 5)[:, :4])
    assert not alone["points"][:, 4].any()
    assert alone["images"] == []
    np.testing.assert_array_equal(read_file(home / "plain.bin")["points"], alone["points"])
    (home / "cut.pcd.bin").write_bytes(scan.read_bytes()[:-3])
    with pytest.raises(DataError, match="must have rows of 5 numbers of 4 bytes, got .* bytes: it is cut off"):
        read_file(home / "cut.pcd.bin")


def test_boxes_of_files_are_told_and_drawn(start, home, scan, tmp_path):
    words = ["--show-score", "0.0", "--show-dir", "seen", "--out", "a.json"]
    out = start(predict, BOTH, scan, home / "alone.pcd.bin", *words)
    assert [line.split("  ")[0] for line in out.splitlines()[:2]] == [str(scan), str(home / "alone.pcd.bin")]
    rows = json.loads((tmp_path / "a.json").read_text())
    assert {row["class"] for row in rows} <= set(CLASSES)
    assert sum(1 for _ in (tmp_path / "seen").rglob("*.png")) == 2
    out = start(predict, ALONE, home / "plain.bin", "--show-score", "0.0")
    assert re.search("car|lorry|cycle|person", out)


def test_tokens_are_drawn_where_they_are(start, home, scan, tmp_path):
    """Pillars from above, and patches of the cameras if there are any."""
    for file, cameras in ((scan, True), (home / "alone.pcd.bin", False)):
        said = start(show_tokens, BOTH, file, "--out", "a.png", weights=False)
        assert int(said.split(" tokens")[0].split()[-1]) > 100
        drawn = np.asarray(picture(tmp_path / "a.png"), int)
        hues = (drawn.max(-1) - drawn.min(-1)) > 40
        above = hues[-720:]
        assert 0.02 < above.mean() < 0.9
        assert (len(drawn) > 720) == cameras
        assert not cameras or hues[:-720].mean() > 0.6


@pytest.mark.slow
def test_a_pillar_and_a_patch_are_drawn_looking(start, scan, tmp_path):
    words = ["--query", "0,6,10", "--layer", "6", "--head", "1", "--out", "a.png"]
    assert start(show_attention, BOTH, scan, *words) == "a.png\n"
    assert picture(tmp_path / "a.png").width > 500
    with pytest.raises(DataError, match=r"X,Y \(a pillar, .*\) or C,Y,X \(a patch of camera 0/1/2/3/4/5, row 0 to 11"):
        start(show_attention, BOTH, scan, "--query", "9,1,1")


def test_z_scores_of_a_lidar_alone_are_those_of_its_layers(start, home):
    said = start(show_attention, ALONE, home / "plain.bin", "--z-scores")
    assert len(said.splitlines()) == 3  # two layers, and the picture
    with pytest.raises(DataError, match=r"query: expected X,Y \(a pillar, .* meters\), got '1'"):
        start(show_attention, ALONE, home / "plain.bin", "--query", "1")


def test_the_explorer_says_what_it_does_not_show(start, home, scan):
    with pytest.raises(DataError, match="joins points and images into one set of tokens, and the explorer shows one"):
        start(explore, BOTH, scan)
    with pytest.raises(DataError, match="layers of UniTR look at windows or groups of tokens, and the explorer"):
        start(explore, ALONE, home / "plain.bin")


def test_a_sensor_that_is_left_out_stays_out_while_others_are_masked(start, home):
    def tested(*without):
        options = [*BOTH[1], f"test_dataloader.dataset.without={list(without)}"]
        return start(test, (BOTH[0], options), "--data-root", home / "nuscenes").splitlines()

    alone, blind = tested("LIDAR_TOP"), tested("LIDAR_TOP", "CAM_FRONT")
    told = {line.split(":")[0]: line for line in alone if line.startswith("without")}
    assert set(told) == {"without points", "without images", "without CAM_FRONT"}
    assert told["without CAM_FRONT"].endswith(blind[0])
    assert not any(line.startswith("without CAM_FRONT") for line in blind)


def test_a_data_root_that_is_not_there_is_told_where_a_run_had_a_sample(home, tmp_path):
    written = load(CONFIGS / "nuscenes_pape.py", BOTH[1], sample=True)
    (tmp_path / "config.py").write_text(written.pretty_text)
    tested = partial(run, test.main, tmp_path / "config.py", home / "nuscenes_pape.pth")
    with pytest.raises(DataError, match="there is no folder .*nowhere"):
        tested("--data-root", tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
