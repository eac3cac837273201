"""A scene in each format is the same in the dataset, predict, show_tokens and peek."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.modalities.pointcloud.formats.files import read_labeled
from tests.programs import CONFIGS, refusal, run, save_untrained
from tools import peek, predict, show_tokens

CONFIG = str(CONFIGS / "scannet_pape.py")
N = 400


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A scene as a dataset's arrays, and in new/ in other formats."""
    home, rng = tmp_path_factory.mktemp("scenes"), np.random.default_rng(0)
    coord = rng.uniform(0, 2, (N, 3)).round(4).astype("f4")
    normal = rng.normal(size=(N, 3))
    normal = (normal / np.linalg.norm(normal, axis=1, keepdims=True)).astype("f4")
    color, label = rng.integers(0, 256, (N, 3)).astype("u1"), rng.integers(0, 20, N)
    for folder in (home / "val/scene0000_00", home / "new/room"):
        folder.mkdir(parents=True)
        for name, values in dict(coord=coord, color=color, normal=normal, segment20=label).items():
            np.save(folder / f"{name}.npy", values)
    row = [(name, "<f4") for name in ("x", "y", "z", "nx", "ny", "nz")]
    row += [(name, "u1") for name in ("red", "green", "blue")]
    table = np.rec.fromarrays([*coord.T, *normal.T, *color.T], row)
    kinds = {"<f4": "float", "u1": "uchar"}
    head = "".join(f"property {kinds[kind]} {name}\n" for name, kind in row)
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {N}\n{head}end_header\n"
    (home / "new/scan.ply").write_bytes(head.encode() + table.tobytes())
    rows = np.concatenate([coord, normal, color], 1, dtype=np.float64)
    np.savetxt(home / "new/scan.xyz", rows, "%.9g", header="X Y Z Nx Ny Nz R G B")
    np.savetxt(home / "new/scan.txt", rows, "%.9g", ",")  # nine columns, by content
    return home


@pytest.fixture(scope="module")
def trained(home):
    cfg = load(CONFIG, [f"data_root={str(home)!r}"], None, True)
    return cfg, save_untrained(home / "best.pth", cfg, [f"class {i}" for i in range(20)])


FORMS = ("room", "scan.ply", "scan.xyz", "scan.txt")


def test_every_form_gives_what_the_data_set_gives(home, trained):
    cfg, model = trained
    prepared = Preparation(cfg, model)
    assert [files[0].name for files in prepared.samples_in([home / "new"])] == sorted(
        FORMS
    )  # the folder is one of them
    assert prepared.samples_in([home / "new/room"]) == [(home / "new/room",)]
    wanted = build_dataset(cfg, "test")[0]["inputs"]["points"]
    raw = build_dataset(cfg, "test").raw(0, 0)
    for name in FORMS:
        opened = prepared.opened(home / "new" / name)
        assert set(opened) == {"points", "normals", "colors"}
        for part, values in opened.items():
            np.testing.assert_allclose(values, raw[part], rtol=1e-6, atol=1e-7, err_msg=f"{part} of {name}")
        found = prepared.sample((home / "new" / name,))["inputs"]["points"]
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_programs_tell_the_same_of_every_form(home, trained, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = [home / "best.pth", home / "new", "--sample", "--data-root", home, "--show-dir", "seen"]
    run(predict.main, CONFIG, *words)
    *said, _ = capsys.readouterr().out.splitlines()
    assert len(said) == len(FORMS)
    assert len({line.split(None, 1)[1] for line in said}) == 1  # the same shares of classes
    assert {path.name for path in Path("seen").iterdir()} >= {"room.png", "scan.png", "scan_prediction.ply"}
    classes = read_labeled(Path("seen/scan_prediction.ply"), "label")["labels"]
    assert len(classes) == N
    assert set(classes.tolist()) <= set(range(20))
    told = []
    for name in FORMS:
        path = str(home / "new" / name)
        show_tokens.main([CONFIG, path, "--sample", "--out", "a.png"])
        tokens = capsys.readouterr().out.partition("as points")[2]
        peek.main([path, "--json"])
        found = json.loads(capsys.readouterr().out)
        told.append((tokens, {part: found[part] for part in ("points", "x", "y", "z", "normals", "colors")}))
    assert all(one == told[0] for one in told)
    assert told[0][1]["points"] == N


def test_what_a_file_lacks_is_said_with_what_to_do(home, trained, tmp_path):
    np.savetxt(tmp_path / "bare.xyz", np.load(home / "new/room/coord.npy"))
    sentence = refusal(predict.main, CONFIG, home / "best.pth", tmp_path / "bare.xyz", "--sample")
    assert "bare.xyz has no colors, which PackPoints should pack: give its missin" in sentence


def test_the_columns_that_the_data_set_names_are_those_of_files_too(home, tmp_path):
    rows = np.concatenate([np.load(home / f"new/room/{name}.npy") for name in ("coord", "color")], 1)
    np.savetxt(tmp_path / "a.txt", np.insert(rows, 3, 7, 1))
    option = "test_dataloader.dataset.columns='x y z - r g b'"
    cfg = load(CONFIG, [f"data_root={str(home)!r}", option], None, True)
    opened = Preparation(cfg, build_model(cfg)).opened(tmp_path / "a.txt")
    np.testing.assert_array_equal(opened["colors"], rows[:, 3:])
