"""Pretrained weights of every source in a model with another encoding, and their learning rates."""

from typing import Any

import pytest
import torch

from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.data_root import absolute
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.training import pretrained
from ndformer.framework.engine.training.optim import parameter_groups
from ndformer.framework.registry import IMPORTERS
from tests.integrations.importers import plain
from tests.integrations.importers.given import CLS, DEPTH, GAMMA, HEADS, LS, PATCH, TABLES, D, N, R, naflexvit, vit
from tests.integrations.importers.plain import TIMM, Names, State
from tests.tools.test_convert_checkpoint import SIZES, official

PAPE_NAMES = Names("encoder.layers.{}.", "attention.qkv_proj", "attention.out_proj", "ffn.fc1", "ffn.fc2")


def pape(m: int = 5) -> State:
    more = {"cls": (1, 1, D), "embedding.weight": (D, 3, PATCH, PATCH), "embedding.bias": (D,)}
    for name in ("encoder.norm_pre", "encoder.norm_post"):
        more |= {f"{name}.weight": (D,), f"{name}.bias": (D,)}
    for i in range(DEPTH):
        at = f"encoder.layers.{i}.attention.position_encoder."
        more |= {f"{at}position.weight": (HEADS * m, 2), f"{at}ab.weight": (2 * HEADS * m, D)}
    weights = plain.weights(D, DEPTH, PAPE_NAMES)
    return weights | plain.drawn({name: torch.empty(shape) for name, shape in more.items()}, 1)


GIVEN: dict[str, State] = {
    "pointcept": {f"backbone.{name}": value for name, value in official(PTv3(**SIZES)).items()},
    "timm": TABLES["timm, no class token"][1],
    "deit": TABLES["DeiT III"][1],
    "dinov2": TABLES["DINOv2 with registers"][1],
    "dinov3": vit(LS, **CLS, storage_tokens=(1, R, D), **{"rope_embed.periods": (4,)}),
    "rope-vit": vit(GAMMA, **CLS, pos_embed=(1, N, D), freqs=(2, DEPTH, D // 2)),
    "naflexvit": naflexvit(),
    "lookhere": vit(LS, 48, cls_token=(1, 1, 48)),
    "pape": pape(),
    "vjepa2": vit(TIMM, **{"patch_embed.proj.weight": (D, 3, 2, PATCH, PATCH)}),
}
CONFIGS = dict(pointcept="scannet_pape", vjepa2="ucf101_pape")
WIDTHS = dict(lookhere=4)  # of heads


def begun(text: str, config: str, encoding: str | None, keep: bool = False, **options: Any) -> tuple[Any, str]:
    weights = pretrained.read(text)
    changes = [f"{name}={value}" for name, value in options.items()]
    cfg = load(config_path(config), changes, encoding, adapt=lambda cfg: pretrained.adapt_config(cfg, weights, keep))
    model = build_model(cfg, "cpu", ["a", "b", "c"])
    return model, "\n".join(pretrained.begin(model, cfg))


@pytest.mark.parametrize("source", IMPORTERS.all())
def test_weights_of_every_source_begin_a_model_with_another_encoding(source, tmp_path, monkeypatch):
    """Issue 44.6: the file determines the sizes of the model, and the encoding is initialized."""
    monkeypatch.chdir(tmp_path)
    torch.save(GIVEN[source], tmp_path / "in.pth")
    text = f"{source}(head_dim={WIDTHS.get(source, 16)}):in.pth"
    model, said = begun(text, CONFIGS.get(source, "imagefolder"), "PaPE(m=4)")
    assert f"weights of in.pth ({source}): " in said
    assert "new: PaPE" in said
    kept = {name: value for name, value in model.state_dict().items() if ".encoding." not in name}
    imported = IMPORTERS.get(source).convert(dict(GIVEN[source]), WIDTHS.get(source, 16)).parts["backbone"].weights
    same = [name for name in imported if f"backbone.{name}" in kept]
    assert len(same) > 10
    assert all(torch.equal(kept[f"backbone.{name}"], imported[name]) for name in same)
    assert len(said.splitlines()) <= 5


def test_a_model_without_class_token_pools_the_mean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = {name: value for name, value in GIVEN["timm"].items() if not name.startswith("head")}
    torch.save(state, tmp_path / "in.pth")
    model, _ = begun("timm(head_dim=16):in.pth", "imagefolder", "ALiBi")
    assert model.head.pool == "mean"
    model, _ = begun("deit(head_dim=16):in.pth", "imagefolder_pape", None)
    assert model.modalities.image.class_at == "center"


def test_a_new_head_has_the_norm_of_the_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(GIVEN["naflexvit"], tmp_path / "in.pth")
    model, _ = begun("naflexvit(head_dim=16, rope_base=100):in.pth", "imagefolder", "ALiBi")
    torch.testing.assert_close(model.head.norm.weight, GIVEN["naflexvit"]["fc_norm.weight"])
    assert model.head.pool == "mean"


def test_an_encoding_of_the_same_type_loads_its_weights_at_any_position(tmp_path, monkeypatch):
    """Issue 44.6: rope-vit has a table and rotations; the config uses one of them with PaPE."""
    monkeypatch.chdir(tmp_path)
    torch.save(GIVEN["rope-vit"], tmp_path / "in.pth")
    model, said = begun("rope-vit(head_dim=16):in.pth", "imagefolder", "PaPE(m=4), RoPEMixed")
    assert "new: PaPE, head.linear\nleft out: LearnableAbsolute" in said
    theirs = IMPORTERS.get("rope-vit").convert(dict(GIVEN["rope-vit"]), 16).parts["backbone"].weights
    frequencies = model.state_dict()["backbone.blocks.1.attention.encoding.parts.1.frequencies"]
    assert torch.equal(frequencies, theirs["blocks.1.attention.encoding.parts.1.frequencies"])
    model, said = begun("rope-vit(head_dim=16):in.pth", "imagefolder", "PaPE(m=4)", keep=True)
    assert [type(part).__name__ for part in model.backbone.encoding.parts] == ["LearnableAbsolute", "RoPEMixed", "PaPE"]
    assert "new: PaPE, head.linear\nleft out: nothing" in said


def test_the_encoding_learns_at_the_full_rate_under_layer_decay(tmp_path, monkeypatch):
    """Issue 44.6: a new encoding in pretrained blocks."""
    monkeypatch.chdir(tmp_path)
    torch.save(TABLES["timm"][1], tmp_path / "in.pth")
    model, _ = begun("timm(head_dim=16):in.pth", "imagefolder", "PaPE(m=4)")
    weights = pretrained.read("timm(head_dim=16):in.pth")
    new, own = (
        load(
            config_path("imagefolder"), [], encoding, adapt=lambda cfg: pretrained.adapt_config(cfg, weights)
        ).param_groups
        for encoding in ("PaPE(m=4)", None)
    )
    assert own is None
    groups = parameter_groups(model, 0.0, **new | dict(layer_decay=0.5))
    rates = {name: group["lr_scale"] for group in groups for name in group["names"]}
    assert rates["backbone.blocks.0.attention.encoding.wa"] == 1.0
    assert rates["backbone.blocks.0.attention.qkv.weight"] == 0.25


def test_the_path_in_a_reference_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "lookhere(head_dim=4, fov=180):in.pth"
    assert absolute(dict(weights=text))["weights"] == f"lookhere(head_dim=4, fov=180):{tmp_path}/in.pth"
    assert absolute(dict(weights="in.pth"))["weights"] == f"{tmp_path}/in.pth"
