"""Removed configs: the error names the command that replaces each, and that command gives the same config."""

import re
import shlex

import pytest

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import CONFIGS, config_path, removed
from tests.framework.engine.conftest import refusal

PLAIN = [  # the encodings of some of them, as the files had them
    ("cifar10_rope", dict(type="AxialRoPE")),
    ("cifar100_alibi", dict(type="ALiBi")),
    ("imagenet1k_lookhere", dict(type="LookHere", preset="pape_repo")),
    ("coco_vitt_pape_ri", dict(type="PaPERI", preset="pape_repo")),
    ("gen1_rope", dict(type="AxialRoPE", preset="pape_repo", axes=[2, 1, 0])),
    ("gen1_rope_mixed", dict(type="RoPEMixed", preset="pape_repo")),
    ("modelnet40_plain_lookhere", dict(type="LookHere")),
    ("modelnet40_sincos", dict(type="Sincos")),
    ("nuscenes_nope", dict(type="NoPE")),
    ("scannet_pape_ri", dict(type="PaPERI")),
    ("dvsgesture_pape_ri", dict(type="PaPERI", preset="pape_repo")),
]


def replacement(name):
    """Return the config and the encoding of the command in the error."""
    config, option, encoding, *_ = shlex.split(refusal(load, config_path(name)).partition("Write instead of it: ")[2])
    assert option == "--encoding"
    return config_path(config), encoding.removesuffix(",")


@pytest.mark.parametrize("name, encoding", PLAIN)
@pytest.mark.parametrize("sample", [False, True])
def test_the_command_in_the_error_gives_the_config_that_was_removed(name, encoding, sample, tmp_path):
    path, text = replacement(name)
    found = load(path, encoding=text, sample=sample).to_dict()
    (tmp_path / "before.py").write_text(
        f"_base_ = ['_base_/{path.stem.removesuffix('_pape')}.py']\nmodel = dict(backbone=dict(encoding={encoding}))"
    )
    assert found == load(tmp_path / "before.py", sample=sample).to_dict()


def test_each_of_them_is_replaced_by_a_config_that_loads():
    assert len(removed()) == 110
    for name in removed():
        assert not (CONFIGS / f"{name}.py").exists()
        path, encoding = replacement(name)
        load(path, encoding=encoding)


@pytest.mark.parametrize(
    "name", ["cifar10_rope", "cifar10_rope.py", "configs/cifar10_rope.py", CONFIGS / "cifar10_rope.py"]
)
def test_it_is_found_however_it_is_named(name):
    end = " was removed. Write instead of it: cifar10_pape --encoding AxialRoPE"
    assert refusal(load, config_path(name)) == f"{name}{end}"


@pytest.mark.parametrize("name", ["modelnet40_lookhere", "cifar10_ropes", "mine_rope", "elsewhere/cifar10_rope.py"])
def test_other_names_are_just_not_there(name):
    assert "was removed" not in refusal(load, config_path(name))
    assert "does not exist" in refusal(load, config_path(name))


@pytest.mark.parametrize("name", ["cifar10_rope", "gen1_rope.py", "dvsgesture_pape_ri"])
def test_a_base_is_replaced_by_lines_that_load(name, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(f"_base_ = ['{name}']\n")
    said, _, lines = refusal(load, mine).partition("\n")
    assert re.fullmatch(r".*mine\.py: its base .* was removed\. Write instead of this base:", said)
    mine.write_text(lines)
    path, encoding = replacement(name)
    assert load(mine).model == load(path, encoding=encoding).model


def test_the_small_version_of_gestures_had_a_start_of_its_own(tmp_path):
    said = refusal(load, config_path("dvsgesture_pape_ri"))
    encoding = shlex.split(said.partition("--sample ")[2])[0]
    mine = tmp_path / "mine.py"
    mine.write_text("_base_ = ['dvsgesture_pape_ri']")
    mine.write_text(refusal(load, mine).partition("\n")[2])
    small = load(config_path("dvsgesture_pape"), encoding=encoding, sample=True)
    assert small.to_dict() == load(mine, sample=True).to_dict()
    assert small.model.backbone.encoding == dict(type="PaPERI", preset="pape_repo", init_radius=8.0)
