"""Linear probes of positions: embeddings and layers of every modality and backbone, and the report."""

import json
import math

import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import DATASETS
from ndformer.lab import probe_positions
from ndformer.lab.probe import Probe
from ndformer.modalities.events.transforms.events import PackFrames
from tests.modalities.events.conftest import random_events


@pytest.fixture(scope="module", autouse=True)
def noise():
    """Register images of noise, in which no token depends on its position."""

    class Noise(Dataset):
        classes = ["one", "other"]

        def index(self, split):
            return list(range(40)), np.arange(40) % 2

        def read(self, record):
            pixels = np.random.default_rng(record).integers(0, 255, (16, 24), dtype=np.uint8)
            return dict(image=Image.fromarray(pixels), label=record % 2, path=str(record))

    DATASETS.get("CIFAR10")
    DATASETS.register_module(module=Noise)
    yield
    DATASETS.module_dict.pop("Noise")


def config(encoding):
    data = dict(type="Noise", data_root=".", split="test", transforms=[dict(type="PackImage")])
    return Config(
        dict(
            model=dict(
                type="TokenModel",
                modalities=dict(image=dict(type="ImagePatches", patch=4, channels=1)),
                backbone=dict(
                    type="Transformer", dim=16, depth=2, heads=2, position_dims=2, encoding=dict(type=encoding)
                ),
                head=dict(type="Classifier", classes=2, pool="mean"),
            ),
            test_dataloader=dict(batch_size=8, dataset=data),
            seed=3,
        )
    )


def probed(encoding, path, samples=40, tokens=24):
    cfg = config(encoding)
    torch.manual_seed(11)  # other weights than with the config's seed, as after training
    checkpoint.save(path / "best.pth", dict(model=build_model(cfg).state_dict(), classes=["one", "other"]))
    return probe_positions.probe(cfg, path / "best.pth", samples, tokens)


def test_positions_are_read_with_sines_and_not_without_an_encoding(tmp_path):
    nothing, sines = probed("NoPE", tmp_path), probed("Sincos", tmp_path)
    assert [layer.name for layer in nothing.layers] == ["embedding", "1", "2"]
    for layer in nothing.layers:  # every token attends to all others alike
        for kind in probe_positions.KINDS:
            for side in (layer.learned, layer.initial):
                assert (getattr(side, kind).r2 <= 0.01).all()
                assert (getattr(side, kind).shuffled <= 0.01).all()
    for kind in probe_positions.KINDS:
        assert (getattr(sines.layers[0].learned, kind).r2 > 0.7).all()
        assert (getattr(sines.layers[0].learned, kind).shuffled <= 0).all()
    assert sines.layers[0].axes == (0, 1)


def test_the_untrained_model_has_the_initial_weights_of_training(tmp_path):
    cfg = config("Sincos")
    torch.manual_seed(cfg.seed)
    checkpoint.save(tmp_path / "begun.pth", dict(model=build_model(cfg).state_dict(), classes=["one", "other"]))
    found = probe_positions.probe(cfg, tmp_path / "begun.pth", 12, 8)
    assert (found.samples, found.tokens) == (12, 8)
    for layer in found.layers:
        assert torch.equal(layer.learned.place.r2, layer.initial.place.r2)
        assert layer.learned.tokens == 12 * 8


def test_the_report_has_the_readings(tmp_path):
    found = probed("Sincos", tmp_path)
    tables = probe_positions.text(found)
    probe_positions.save(tmp_path, found, tables)
    probe_positions.draw(tmp_path / "probe_positions.png", found)
    content = json.loads((tmp_path / "probe_positions.json").read_text())
    assert content["encoding"] == "Sincos"
    assert [layer["name"] for layer in content["layers"]] == ["embedding", "1", "2"]
    first = content["layers"][0]
    assert (first["channels"], first["tokens"], first["spacing"]) == (16, 960, [1.0, 1.0])
    assert first["place"]["r2"] == found.layers[0].learned.place.r2.tolist()
    assert f" {first['place']['r2'][0]:.3f} |" in tables
    assert (tmp_path / "probe_positions.png").stat().st_size > 5000
    assert "Take more samples" not in tables
    assert "Take more samples" in probe_positions.text(probed("Sincos", tmp_path, samples=3))


TRANSFORMER = dict(type="Transformer", dim=12, depth=1, heads=2, encoding=dict(type="Sincos"))
WINDOWS = dict(enc_depths=(1, 1), enc_channels=(8, 8), enc_heads=(1, 1), dec_depths=(1,), dec_channels=(8,))
CLOUDS = dict(points=dict(type="PointPatches", centers=8, neighbors=4))
TUBES = dict(video=dict(type="Tubelets", tubelet=(2, 4, 4)))
SPIKES = dict(events=dict(type="SpikingPatches", patch=8, bins=1, time_unit=10_000))


def cloud(seed):
    return torch.rand(40, 6, generator=torch.Generator().manual_seed(seed))


def video(seed):
    return torch.randint(0, 255, (6, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def spikes(seed):
    pack = PackFrames(20_000, 8)
    sample = dict(events=random_events(900, until=200_000, seed=seed), start=0, end=200_000, label=1)
    return pack(sample, np.random.default_rng(seed))["inputs"]["events"]


CASES = {
    "clouds": (CLOUDS, TRANSFORMER | dict(position_dims=3), cloud, {"embedding": (0, 1, 2), "1": (0, 1, 2)}),
    "windows of points": (
        dict(points=dict(type="Points")),
        dict(type="PTv3", in_channels=3, grid_size=0.1, window=16, dec_heads=(1,), **WINDOWS),
        cloud,
        dict.fromkeys(["embedding", "1", "2", "3"], (0, 1, 2)),
    ),
    "videos": (TUBES, TRANSFORMER | dict(position_dims=3), video, {"embedding": (0, 1, 2), "1": (0, 1, 2)}),
    "events": (SPIKES, TRANSFORMER | dict(position_dims=3), spikes, {"embedding": (0, 1, 2), "1": (0, 1, 2)}),
    "space, then time": (
        TUBES,
        TRANSFORMER | dict(type="FactorizedTransformer", time_depth=1, position_dims=3),
        video,
        {"space embedding": (1, 2), "space 1": (1, 2), "time 2": (0,)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_modality_and_backbone_is_probed(case):
    modalities, backbone, sample, layers = CASES[case]
    torch.manual_seed(0)
    model = TokenModel(modalities, backbone, dict(type="Classifier", classes=2, pool="mean")).eval()
    probe, (name,), axes = Probe(), modalities, {}
    with torch.no_grad():
        for seed in range(6):
            axes = probe_positions._record(model, {name: [sample(seed)]}, probe)
    assert axes == layers
    for layer, own in axes.items():
        found = probe.read(layer)
        assert len(probe.layers[layer].x) == 6  # samples, with any number of rows each
        assert len(found.place.r2) == len(found.spacing) == len(own)
        assert all(math.isfinite(value) for value in found.place.error)
    assert all(not module._forward_hooks for module in model.modules())


def test_a_backbone_without_blocks_is_an_error(tmp_path):
    model = TokenModel(
        dict(image=dict(type="ImagePatches", patch=4)),
        TRANSFORMER | dict(position_dims=2),
        dict(type="Classifier", classes=2),
    )
    model.backbone.blocks = torch.nn.ModuleList()
    with pytest.raises(DataError, match=r"no blocks that can be probed. Probe it from Python, with record_outputs"):
        probe_positions._record(model, dict(image=torch.zeros(1, 3, 8, 8)), Probe())
