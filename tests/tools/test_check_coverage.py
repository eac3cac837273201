"""tools/check_coverage.py: measurements on a config's data, and the report."""

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from tools import check_coverage, show_encoding

SMALL = ["model.backbone.dim=8", "model.backbone.depth=1", "model.backbone.heads=1", "model.head.classes=2"]
SMALL += ["model.modalities.image.patch=8", "train_dataloader.dataset.transforms.0.size=32"]


@pytest.fixture
def folder(tmp_path):
    for name in ("ant", "bee"):
        path = tmp_path / "set" / "train" / name
        path.mkdir(parents=True)
        for i in range(8):
            Image.fromarray(np.full((40, 40, 3), 20 * i, np.uint8)).save(path / f"{i}.png")
    return tmp_path / "set"


def asked(folder, encoding, out, *more):
    check_coverage.main(
        ["imagefolder_pape", "--data-root", str(folder), "--encoding", encoding, "--out", str(out), *more]
        + ["--cfg-options", *SMALL]
    )


def test_it_says_what_the_tokens_of_a_set_use(folder, tmp_path, capsys):
    asked(folder, "RelativeBias(reach=2)", tmp_path / "coverage.png")
    said = capsys.readouterr().out
    assert "RelativeBias (backbone.encoding): tokens are 1 x 1 apart, a sample spans up to 3 x 3" in said
    assert "steps along axis 0     3 of 3    used, of length 0 to 2" in said
    assert "warning: steps along axis 1 end at 2, and tokens are up to 3 apart: reach=3" in said
    assert (tmp_path / "coverage.png").read_bytes().startswith(b"\x89PNG")


def test_an_encoding_that_says_nothing_gets_no_picture(folder, tmp_path, capsys):
    asked(folder, "NoPE", tmp_path / "coverage.png", "--batches", "1")
    assert "this encoding does not report its coverage" in capsys.readouterr().out
    assert not (tmp_path / "coverage.png").exists()


def test_what_is_measured_on_the_data_is_measured_first(folder, tmp_path, capsys):
    asked(folder, "PaPE(m=4, init_radius='spread', position_scale='auto')", tmp_path / "coverage.png")
    assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize("batches", ["0", "-1"])
def test_no_batches_are_a_sentence(folder, tmp_path, batches):
    with pytest.raises(DataError, match="--batches: expected 1 or more"):
        asked(folder, "Sincos", tmp_path / "coverage.png", "--batches", batches)


def test_pictures_are_named_after_their_encodings_and_what_is_replaced_is_told(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--data-root", str(folder), "--batches", "1", "--cfg-options", *SMALL]
    for encoding in ("Sincos", "RelativeBias(reach=2)"):
        check_coverage.main(["imagefolder_pape", "--encoding", encoding, *words])
    assert [path.name for path in sorted(tmp_path.glob("*.png"))] == [
        "coverage_RelativeBias-reach-2.png",
        "coverage_Sincos.png",
    ]
    said = capsys.readouterr().out
    assert said.startswith("Sincos, in place of the config's PaPE(")


def test_show_encoding_says_the_same_of_a_config(folder, tmp_path, capsys):
    asked(folder, "RelativeBias(reach=2)", tmp_path / "one.png", "--batches", "1")
    expected = capsys.readouterr().out
    words = ["--data-root", str(folder), "--batches", "1", "--out", str(tmp_path / "one.png"), "--cfg-options", *SMALL]
    show_encoding.main(["RelativeBias(reach=2)", "--config", "imagefolder_pape", *words])
    assert capsys.readouterr().out == expected
