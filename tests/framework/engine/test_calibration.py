"""'auto' and 'spread' in a config are replaced by measured numbers, which the run's config has."""

import pytest
import torch

from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import DATASETS
from ndformer.framework.system import processes
from tests.soak.tiny import config, register

MEASURED = dict(type="PaPE", m=2, init_radius="spread", position_scale="auto")


@pytest.fixture(scope="module", autouse=True)
def squares():
    register()
    yield
    DATASETS.module_dict.pop("SoakSquares")


def of(encoding, **modality):
    cfg = config()
    cfg.model.backbone.encoding = encoding
    cfg.model.modalities.image.update(modality)
    return cfg


def test_numbers_are_measured_on_the_first_batch():
    cfg = of(MEASURED, patch=2)  # 4 x 4 patches
    result, said = calibrate(cfg)
    assert result.model.backbone.encoding == dict(type="PaPE", m=2, init_radius=[1, 1.5], position_scale=[1, 1])
    assert cfg.model.backbone.encoding == MEASURED
    assert said == [
        "measured on the first batch: init_radius=[1.0, 1.5] of PaPE, for 'spread'",
        "measured on the first batch: position_scale=[1.0, 1.0] of PaPE, for 'auto'",
    ]


def test_each_of_several_processes_measures_the_whole_batch(monkeypatch):
    """Two processes trained another model than one with the same total batch."""
    sizes, features = [], TokenModel.features
    monkeypatch.setattr(TokenModel, "features", lambda self, x: sizes.append(len(x["image"])) or features(self, x))
    monkeypatch.setattr(processes, "count", lambda: 2)
    for rank in (0, 1):
        monkeypatch.setattr(processes, "rank", lambda rank=rank: rank)
        calibrate(of(MEASURED, patch=2))
    assert sizes == [8, 8]  # 4 of each process


def test_each_of_several_encodings_is_measured():
    result, _ = calibrate(of([dict(type="Sincos"), MEASURED, dict(type="ALiBi", position_scale="auto")], patch=2))
    assert [part.get("position_scale") for part in result.model.backbone.encoding] == [None, [1, 1], [1, 1]]


def test_an_encoding_within_another_is_measured():
    result, said = calibrate(
        of(dict(type="PEMixer", first=MEASURED, second=dict(type="Sincos", position_scale="auto")))
    )
    kept = result.model.backbone.encoding
    assert (kept.first.init_radius, kept.first.position_scale, kept.second.position_scale) == ([1, 1], [1, 1], [1, 1])
    assert "measured on the first batch: position_scale=[1.0, 1.0] of Sincos, for 'auto'" in said
    both, _ = calibrate(of(dict(type="PEMixer", first=MEASURED, position_scale="auto"), patch=2))
    assert both.model.backbone.encoding.position_scale == [1, 1]


def test_numbers_that_are_given_are_left_alone():
    cfg = of(dict(type="PaPE", m=2, init_radius=3.0))
    assert calibrate(cfg) == (cfg, [])


def test_measuring_draws_no_random_number():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    calibrate(of(MEASURED))
    assert torch.equal(torch.rand(3), wanted)


def test_a_run_keeps_what_was_measured_and_goes_on_with_it(tmp_path):
    cfg = of(MEASURED, patch=2)
    cfg.train_cfg.max_epochs = 1
    train(cfg, tmp_path)
    kept = load(tmp_path / "config.py").model.backbone.encoding
    assert (kept.init_radius, kept.position_scale) == ([1, 1.5], [1, 1])
    assert "init_radius=[1.0, 1.5]" in (tmp_path / "train.log").read_text()
    assert train(cfg, tmp_path, resume=True)["epochs"] == 1  # measured again, it is the config that was


def test_tokens_too_far_apart_are_told_at_the_first_step(tmp_path, capsys):
    cfg = of(dict(type="PaPE", m=2, position_scale=100.0))
    cfg.train_cfg.max_epochs = 1
    train(cfg, tmp_path)
    assert capsys.readouterr().out.count("tokens are about 100 apart, and PaPE first attends within a radius of") == 1


def test_a_resumed_run_keeps_its_numbers_where_another_batch_would_give_others():
    cfg = of([dict(type="Sincos"), MEASURED], patch=2)
    numbers = dict(init_radius=[2.0, 9.0], position_scale=[0.5, 0.25])
    resumed, messages = calibrate(cfg, of([dict(type="Sincos"), MEASURED | numbers]).to_dict())
    assert messages == []
    assert resumed.model.backbone.encoding[1] == MEASURED | numbers
    other = of([dict(type="Sincos"), dict(type="PaPERI") | numbers]).to_dict()
    assert calibrate(cfg, other)[0].model.backbone.encoding[1].position_scale == [1, 1]  # of another encoding
