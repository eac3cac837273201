"""tools/explore.py: a page for each modality, and errors."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.lab import explore as explore_data
from tests.explored import KINDS, SMALL, page_of, run_of, terms_of, told, write_files
from tests.programs import refusal
from tools import explore

SHALLOW = ["model.backbone.dim=32", "model.backbone.depth=1", "model.backbone.heads=2"]
GROUPS = [*SHALLOW, "model.backbone.type='FactorizedTransformer'", "model.backbone.time_depth=1"]
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("explored"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {kind: run_of(folder, config) for kind, (config, _) in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_the_numbers_of_its_model(kind, home, runs, tmp_path):
    run, file = runs[kind], home / KINDS[kind][1]
    about, texts = told(page_of(run, file, out=tmp_path / "page.html"))
    (side,) = about["files"][0]["sides"]
    looks = run.looks(file)
    assert len(side["layers"]) == len(looks) == 2
    for layer, number, expected in zip(side["layers"], side["numbers"], looks):
        found = terms_of(layer, texts[number], 1)
        assert list(found) == list(expected) == ["semantic", "distance", "direction"]
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values[1].numpy(), rtol=1e-5, atol=1e-3, err_msg=name)
    assert side["count"] == len(looks[0]["semantic"][0])
    assert side["view"]["kind"] == ("cloud" if kind == "cloud" else "moments")
    assert side["prefix"] == ([] if kind == "cloud" else ["class token"])


def test_registers_can_look_too(home, tmp_path):
    run = run_of(tmp_path, "cifar10_pape.py", [*SHALLOW, "model.modalities.image.registers=2"])
    about, texts = told(page_of(run, home / "photo.png", out=tmp_path / "page.html"))
    (side,) = about["files"][0]["sides"]
    assert side["prefix"] == ["class token", "register 1", "register 2"]
    assert side["count"] == 3 + 64
    found = terms_of(side["layers"][0], texts[side["numbers"][0]], 0)
    assert (found["distance"][:3] == 0).all()
    assert (found["distance"][3:, 3:] != 0).any()


def test_two_models_are_beside_each_other(home, runs, tmp_path):
    """Each side has the numbers of its model, whose sizes differ."""
    other = run_of(tmp_path, "cifar10_pape.py", SHALLOW, encoding="RoPEMixed")
    config = tmp_path / "configs" / "rope.py"
    config.parent.mkdir()
    lines = """_base_ = ["_base_/cifar10.py"]
model = dict(backbone=dict(encoding=dict(type="RoPEMixed")))
sample = dict(model=dict(backbone=dict(depth=1, dim=32, heads=2)))
"""
    config.write_text(lines)
    more = ["--layers", "1", "--beside", str(config), str(other.path)]
    about, texts = told(page_of(runs["image"], home / "photo.png", out=tmp_path / "page.html", more=more))
    first, second = about["files"][0]["sides"]
    assert (first["model"], second["model"], second["encoding"]) == ("cifar10_pape", "rope", "RoPEMixed")
    assert [len(side["layers"]) for side in (first, second)] == [1, 1]  # of the first model's two
    (expected,) = other.looks(home / "photo.png")
    found = terms_of(second["layers"][0], texts[second["numbers"][0]], 0)
    np.testing.assert_allclose(found["semantic"], expected["semantic"][0].numpy(), atol=1e-3)


def test_two_models_with_other_test_sets_are_refused():
    sides: list[Any] = [SimpleNamespace(name="first"), SimpleNamespace(name="second")]
    sample = lambda number, path: (f"sample {number}", dict(data_sample=dict(path=path)))
    ours = [sample(0, "one/a.png"), sample(1, "one/b.png")]
    explore_data._check_same_samples(sides, [ours, [sample(0, "two/a.png"), sample(1, "two/b.png")]])
    for theirs, other in (([ours[0], sample(1, "one/c.png")], "sample 1 of c.png"), (ours[:1], "no sample")):
        with pytest.raises(DataError, match=f"got 'sample 1 of b.png' for first and '{other}' for second"):
            explore_data._check_same_samples(sides, [ours, theirs])


def test_names_of_others_are_text(home, tmp_path):
    run = run_of(tmp_path, "cifar10_pape.py", classes=[HOSTILE] * 10)
    (tmp_path / "photos").mkdir()
    file = tmp_path / "photos" / "<img src=x onerror=alert(1)>.png"
    file.write_bytes((home / "photo.png").read_bytes())
    page = page_of(run, file, out=tmp_path / "page.html")
    assert "<img" not in page
    assert page.count("</script>") == 2 + 2  # its own, and the numbers of two layers
    about, _ = told(page)
    assert about["files"][0]["name"] == file.name
    assert HOSTILE in about["files"][0]["sides"][0]["says"]


@pytest.fixture
def refused(tmp_path):
    """Return the error of the program, which leaves no page."""

    def refused(run, *files, more=()):
        out = tmp_path / "page.html"
        sentence = refusal(explore.main, *run.arguments(*files, out=out), *more)
        assert "NDFORMER_DEBUG" not in sentence
        assert not out.exists()
        return sentence

    return refused


def test_what_cannot_be_shown_ends_in_a_sentence(home, runs, refused, tmp_path):
    image = runs["image"]
    assert "no file or folder at" in refused(image, tmp_path / "gone.png")
    assert "layers of cifar10_pape are 1 to 2, got 3" in refused(image, home / "photo.png", more=["--layers", "3"])
    assert "ends in .html, got" in refused(image, home / "photo.png", more=["--out", str(tmp_path / "page.png")])
    other = run_of(tmp_path, "cifar10_pape.py", SHALLOW)
    other.options = SMALL
    assert "does not fit the model" in refused(other, home / "photo.png")
    other.path.write_bytes(b"no weights")
    assert str(other.path.name) in refused(other, home / "photo.png")


def test_layers_that_look_at_groups_are_refused_with_what_to_take(home, refused, tmp_path):
    run = run_of(tmp_path, "ucf101_pape.py", GROUPS)
    assert "layers of FactorizedTransformer look at windows or groups of tokens" in refused(run, home / "film")
