"""Configs of before the US spelling: registered names, options and values load with a warning, runs go on silently."""

import re
import warnings

import pytest

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.differences import check_resumable, relevant_changes, settings_digest
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.config.text import format_config, parse_config
from ndformer.framework.errors import UnknownNameError
from ndformer.framework.registry import METRICS, TRANSFORMS

CLASS_AT = "model.modalities.image.class_at"
OLD = {
    **dict(CenterDistance="CentreDistance", CenterPoints="CentrePoints", CenterPoint="CentrePoint"),
    **dict(UnitColors="UnitColours", ShiftColors="ShiftColours", JitterColors="JitterColours"),
    **dict(ContrastColors="ContrastColours", FactorizedTransformer="FactorisedTransformer"),
    **dict(colors="colours", centers="centres", neighbors="neighbours", center="centre"),
}
CONFIGS = {  # name -> options, and what is in the old spelling of the config
    "custom_scenes": ([], ["CentrePoints", "UnitColours", "ShiftColours", "JitterColours", "colours"]),
    "scannet_pape": ([], ["ContrastColours"]),
    "custom_lidar": ([], ["CentrePoint", "CentreDistance"]),
    "modelnet40_plain_pape": ([], ["centres", "neighbours"]),
    "fashion_mnist": ([f"{CLASS_AT}=center"], ["centre"]),
}


def old(cfg):
    text = re.sub(rf"\b({'|'.join(OLD)})\b", lambda match: OLD[match[1]], format_config(cfg.to_dict()))
    return parse_config(text)


@pytest.mark.parametrize("name", CONFIGS)
def test_old_spellings_load_with_a_warning_and_change_no_run(tmp_path, capsys, name):
    options, words = CONFIGS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        cfg = load(config_path(name), options)
    before = old(cfg)
    text = format_config(before)
    assert [word for word in words if not re.search(rf"\b{word}\b", text)] == []
    saved.write(tmp_path, before)
    with pytest.warns(DeprecationWarning, match="(called|written) .* now") as caught:
        loaded = load(tmp_path / "config.py")
    assert loaded.to_dict() == cfg.to_dict()
    messages = "\n".join(str(warning.message) for warning in caught)
    assert [word for word in words if f"'{word}'" not in messages] == []
    assert settings_digest(cfg.to_dict()) == settings_digest(before)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert relevant_changes(before, cfg.to_dict()) == []
        check_resumable(cfg, dict(settings=before, epoch=0, processes=1), False)
    assert capsys.readouterr().out == ""


def test_a_change_is_one_in_the_old_spelling_too():
    cfg = load(config_path("modelnet40_plain_pape"))
    before = old(load(config_path("modelnet40_plain_pape"), ["model.modalities.points.centers=99"]))
    assert relevant_changes(before, cfg.to_dict()) == [("model.modalities.points.centers", 99, 512)]
    assert settings_digest(before) != settings_digest(cfg.to_dict())


def test_an_option_in_the_old_spelling_changes_the_new_one():
    with pytest.warns(DeprecationWarning, match="the option 'centres' is called 'centers' now"):
        cfg = load(config_path("modelnet40_plain_pape"), ["model.modalities.points.centres=99"])
    assert cfg.model.modalities.points.centers == 99
    with pytest.warns(DeprecationWarning, match="class_at='centre' is written class_at='center' now"):
        cfg = load(config_path("fashion_mnist"), [f"{CLASS_AT}=centre"])
    assert cfg.model.modalities.image.class_at == "center"


@pytest.mark.parametrize("name", ["CentrePoints", "ndformer.CentrePoints"])
def test_python_code_may_name_a_class_as_before(name):
    with pytest.warns(DeprecationWarning, match=f"type='{name}' is called 'CenterPoints' now"):
        assert type(TRANSFORMS.create(dict(type=name, up=False))).__name__ == "CenterPoints"
    with pytest.raises(UnknownNameError, match="no metric is called 'CentrePoints'"):
        METRICS.get("CentrePoints")


def test_a_class_of_ones_own_may_have_an_old_name(monkeypatch):
    monkeypatch.setitem(TRANSFORMS.all(), "UnitColours", dict)
    assert TRANSFORMS.get("UnitColours") is dict
