"""Our importers beside the real models of transformers, with random weights, called there as their sources call them.
So each importer meets an implementation that is not ours."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.model import TokenModel
from ndformer.framework.registry import IMPORTERS

transformers = pytest.importorskip("transformers")
NAMES = [  # of transformers, of the source
    (r"^encoder\.layer\.|^model\.layer\.|^layer\.", "blocks."),
    (r"^(encoder\.)?layernorm\.", "norm."),
    (r"^(encoder\.)?embeddings\.patch_embeddings\.((projection|proj)\.)?", "patch_embed.proj."),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.", ""),
    (r"\.attention\.(o_proj|proj)\.", ".attn.proj."),
    (r"\.layer_scale(\d)\.lambda1$", r".ls\1.gamma"),
    (r"\.mlp\.up_proj\.", ".mlp.fc1."),
    (r"\.mlp\.down_proj\.", ".mlp.fc2."),
]
PROJECTIONS = [("q_proj", "k_proj", "v_proj"), ("query", "key", "value")]
SIZES: dict[str, Any] = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, patch_size=16)


def random(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**SIZES | options)).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    return model


def by_the_sources_names(model: Any) -> dict[str, Tensor]:
    """Three projections are one there, with a bias of 0 for keys where they have none."""
    given = {name: value for name, value in model.state_dict().items() if not name.startswith("predictor.")}
    for name in list(given):
        for first, *others in PROJECTIONS:
            if name.endswith(f".attention.{first}.weight"):
                at = name.removesuffix(f"{first}.weight")
                rows = [given.pop(f"{at}{one}.weight") for one in (first, *others)]
                biases = [
                    given.pop(f"{at}{one}.bias", torch.zeros(len(row))) for one, row in zip((first, *others), rows)
                ]
                block = at.removesuffix("attention.")
                given[f"{block}attn.qkv.weight"], given[f"{block}attn.qkv.bias"] = torch.cat(rows), torch.cat(biases)
    for theirs, own in NAMES:
        given = {re.sub(theirs, own, name): value for name, value in given.items()}
    return given


def ours(source: str, given: dict[str, Tensor], modality: str) -> TokenModel:
    parts = IMPORTERS.get(source).convert(given, 64).parts
    adapter, backbone = (parts[place] for place in (f"modalities.{modality}", "backbone"))
    model = TokenModel({modality: adapter.config}, backbone.config, dict(type="Classifier", classes=2, pool="mean"))
    weights = {f"{place}.{own}": value for place, part in parts.items() for own, value in part.weights.items()}
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert all(name.startswith("head.") or name.endswith((".mean", ".std")) for name in missing), missing
    return model.eval()


@pytest.mark.parametrize(
    "kind, source, options",
    [
        ("Dinov2", "dinov2", dict(image_size=64)),
        ("Dinov2WithRegisters", "dinov2", dict(image_size=64, num_register_tokens=4)),
        ("DINOv3ViT", "dinov3", dict(image_size=64, num_register_tokens=4, intermediate_size=256)),
    ],
)
@torch.no_grad()
def test_features_of_images_are_those_of_transformers(kind: str, source: str, options: dict[str, Any]) -> None:
    model = random(kind, **options)
    given = by_the_sources_names(model)
    if source == "dinov3":
        given["storage_tokens"] = given.pop("register_tokens")
        given["rope_embed.periods"] = 100.0 ** (torch.arange(16) / 16)
    found = ours(source, given, "image")
    for height, width in ((64, 64), *([(32, 96)] if source == "dinov3" else [])):  # no table to resample
        images = torch.randn(2, 3, height, width)
        theirs = model(images).last_hidden_state
        torch.testing.assert_close(found.features(images).features, theirs, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_features_of_videos_are_those_of_transformers() -> None:
    small = dict(pred_hidden_size=32, pred_num_attention_heads=2, pred_num_hidden_layers=1, pred_mlp_ratio=1)
    model = random("VJEPA2", crop_size=64, frames_per_clip=4, mlp_ratio=2, **small)
    found: Any = ours("vjepa2", by_the_sources_names(model), "video")
    videos, adapter = torch.randn(2, 4, 3, 64, 64), found.modalities["video"]
    pixels = videos * adapter.std.view(3, 1, 1) + adapter.mean.view(3, 1, 1)  # which it normalizes itself
    theirs = model(videos, skip_predictor=True).last_hidden_state
    torch.testing.assert_close(found.features(pixels).features, theirs, rtol=1e-5, atol=1e-5)
