"""Configs with the old names of options: they load with a warning, and are the same as with the new ones."""

import pytest

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load, load_text
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.registry import BACKBONES

BACKBONE = "model.backbone"


def old_config():
    """Return the config of UniTR as it was saved with the old names."""
    cfg = load(config_path("nuscenes_unitr")).to_dict()
    backbone = cfg["model"]["backbone"]
    backbone |= dict(told=backbone.pop("positions"), keep_own=backbone.pop("sensor_encodings"))
    return cfg


@pytest.fixture
def renamed():
    return pytest.warns(DeprecationWarning, match="'(told|keep_own)' is called '(positions|sensor_encodings)' now")


def test_a_saved_config_with_old_names_is_the_new_one(tmp_path, renamed):
    saved.write(tmp_path, old_config())
    with renamed:
        found = load(tmp_path / "config.py")
    assert found.model == load(config_path("nuscenes_unitr")).model


def test_the_config_text_of_a_checkpoint_may_have_old_names(tmp_path, renamed):
    saved.write(tmp_path, old_config())
    with renamed:
        found = load_text((tmp_path / "config.py").read_text(), tmp_path / "best.pth")
    assert found.model.backbone.positions == "cells"
    assert "told" not in found.model.backbone


def test_an_option_with_an_old_name_changes_the_new_one(renamed):
    with renamed:
        cfg = load(config_path("nuscenes_unitr"), [f"{BACKBONE}.told=places", f"{BACKBONE}.keep_own=False"])
    assert cfg.model.backbone.positions == "continuous"
    assert cfg.model.backbone.sensor_encodings is False


def test_a_sample_may_have_old_names(tmp_path, renamed):
    (tmp_path / "mine.py").write_text(
        f"_base_ = [{str(config_path('nuscenes_unitr'))!r}]\nsample = dict(model=dict(backbone=dict(keep_own=False)))\n"
    )
    with renamed:
        cfg = load(tmp_path / "mine.py", sample=True)
    assert cfg.model.backbone.sensor_encodings is False


def test_a_component_of_python_code_may_have_old_names(renamed):
    with renamed:
        backbone = BACKBONES.create(dict(type="UniTR", dim=16, heads=2, told="cells", keep_own=True))
    assert backbone.integer_cells
    assert backbone.sensor_encodings
