"""tools/extrapolate.py: checkpoints as arguments, and output files."""

import json
import shutil

import pytest

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import DataError
from tests.programs import CONFIGS, NO_WORKERS, SMALL, refusal, save_untrained, write_images
from tools import extrapolate

TINY = [*SMALL, *NO_WORKERS, "model.head.classes=2", "model.modalities.image.patch=8"]
TINY += [f"{split}_dataloader.dataset.transforms.0.size=16" for split in ("train", "test")]


@pytest.fixture
def runs(tmp_path):
    """Folders of three runs, untrained."""
    write_images(tmp_path / "set", count=1, splits=("train", "val", "test"), size=(20, 20))
    found = []
    for encoding, seed in (("Sincos", 0), ("Sincos", 1), ("PaPE", 0)):
        options = [*TINY, f"seed={seed}", f"data_root={str(tmp_path / 'set')!r}"]
        cfg = load(CONFIGS / "imagefolder_pape.py", options, encoding)
        home = tmp_path / "runs" / f"{encoding}_{seed}"
        home.mkdir(parents=True)
        saved.write(home, cfg.to_dict())
        save_untrained(home / "best.pth", cfg)
        found.append(home)
    return found


def test_several_runs_make_one_table(runs, tmp_path, capsys):
    extrapolate.main([*map(str, runs), "--sizes", "32", "16"])
    said = capsys.readouterr().out
    content = json.loads((tmp_path / "runs" / "extrapolate.json").read_text())
    found = {(row["encoding"], row["size"], row["interpolated"]): row["n"] for row in content["rows"]}
    assert found == {(e, s, i): n for e, n in (("Sincos", 2), ("PaPE", 1)) for s in (16, 32) for i in (False, True)}
    assert content["runs"][0]["figures"][2]["did"] == "EvalCrop size 16 -> 32"
    assert (tmp_path / "runs" / "extrapolate.md").read_text() in said
    assert (tmp_path / "runs" / "extrapolate.png").is_file()


def test_two_runs_of_an_encoding_with_one_seed_are_refused(runs, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(runs[0], again)
    with pytest.raises(DataError, match="are both Sincos with seed 0: a table has the mean over seeds"):
        extrapolate.main([*map(str, [*runs, again]), "--sizes", "32"])


def test_runs_of_an_encoding_with_other_settings_are_refused(runs, tmp_path):
    cfg = load(runs[1] / "config.py")
    cfg.optimizer.lr = 0.5
    saved.write(runs[1], cfg.to_dict())
    with pytest.raises(DataError, match=r"Sincos_0/best.pth and .*Sincos_1/best.pth differ in optimizer.lr: a table"):
        extrapolate.main([*map(str, runs), "--sizes", "32"])
    (tmp_path / "file").write_text("")
    assert "--onto names a folder, got the file" in refusal(
        extrapolate.main, runs[0], "--sizes", "16", "--onto", str(tmp_path / "file")
    )


def test_absolute_and_relative_paths_have_a_common_folder(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    extrapolate.main([str(runs[0]), str(runs[2].relative_to(tmp_path)), "--sizes", "16"])
    assert (tmp_path / "runs" / "extrapolate.json").is_file()


def test_heights_and_widths_apart_and_scalings(runs, tmp_path):
    sizes = ["16x16", "16x32", "32x16", "32x32"]
    extrapolate.main([str(runs[2]), "--sizes", *sizes, "--scalings", "linear", "--out", str(tmp_path / "out")])
    content = json.loads((tmp_path / "out" / "extrapolate.json").read_text())
    assert [(row["size"], row["scaling"]) for row in content["rows"]] == [(size, "linear") for size in sizes]
    assert content["runs"][0]["figures"][1]["did"] == "EvalCrop size 16 -> (16, 32)"


@pytest.mark.parametrize("size", ["16x", "x16", "16x16x3", "-16", "²", "big"])
def test_a_size_is_one_number_or_two(size, capsys):
    with pytest.raises(SystemExit):
        extrapolate.parse(["run", "--sizes", size])
    assert "a size is 224, or 224x448 for height x width" in capsys.readouterr().err.replace("\n", " ")


def test_a_config_before_a_checkpoint_counts_instead_of_the_one_beside_it(runs, tmp_path):
    (runs[2] / "config.py").rename(tmp_path / "other.py")
    out = tmp_path / "out"
    extrapolate.main([str(tmp_path / "other.py"), str(runs[2] / "best.pth"), "--sizes", "16", "--out", str(out)])
    (one,) = json.loads((out / "extrapolate.json").read_text())["runs"]
    assert (one["checkpoint"], one["encoding"]) == (str(runs[2] / "best.pth"), "PaPE")


def test_what_goes_wrong_is_one_sentence(runs, tmp_path):
    def fails(*words):
        return refusal(extrapolate.main, *words)

    assert fails(runs[0], "--sizes", "20").startswith(
        "patches of 8 do not divide 20; the nearest that they do are 16, 24"
    )
    assert "no checkpoint at" in fails(tmp_path / "nowhere", "--sizes", "16")
    assert "no CHECKPOINT. Name one after" in fails(runs[0] / "config.py", "--sizes", "16")
    assert "does not fit the model" in fails(runs[0] / "config.py", runs[2], "--sizes", "16")
    (runs[0] / "config.py").unlink()
    (runs[0] / "config.json").unlink()
    assert "no config.json beside" in fails(runs[0], "--sizes", "16")
