"""Configs of all encodings of the PaPE paper's Table 1, on its video, its event streams and N-MNIST."""

from pathlib import Path

import pytest

from ndformer.framework.engine.config.load import load

CONFIGS = Path(__file__).parents[2] / "configs"
ENCODINGS = dict(
    sincos="Sincos", rope="AxialRoPE", rope_mixed="RoPEMixed", alibi="ALiBi", lookhere="LookHere", pape="PaPE",
    pape_ri="PaPERI", nope="NoPE",
)  # fmt: skip


@pytest.mark.parametrize("dataset", ["ucf101", "dvsgesture", "gen1", "nmnist", "nuscenes"])
def test_each_config_has_the_encoding_of_its_name_and_all_else_alike(dataset):
    plain = load(CONFIGS / f"{dataset}_nope.py")
    for name, kind in ENCODINGS.items():
        cfg = load(CONFIGS / f"{dataset}_{name}.py")
        encoding = cfg.model.backbone.pop("encoding")
        assert encoding["type"] == kind
        if kind == "PaPE":
            assert encoding["m"] == 50
        if dataset != "nmnist" and kind in ("AxialRoPE", "RoPEMixed", "LookHere", "PaPERI"):
            assert encoding["preset"] == "pape_repo"  # the definitions that the paper's figures are of
        for key in (
            "model",
            "train_dataloader",
            "val_dataloader",
            "test_dataloader",
            "optimizer",
            "schedule",
            "train_cfg",
        ):
            mine, other = cfg[key].to_dict(), plain[key].to_dict()
            other.get("backbone", {}).pop("encoding", None)
            assert mine == other, (name, key)


@pytest.mark.parametrize(
    "config, modality, small",
    [
        ("ucf101_pape", "video", True),
        ("dvsgesture_pape", "events", True),
        ("imagenet1k_pape", "image", True),
        ("lpc_actions", "video", False),
    ],
)
def test_a_class_token_is_at_the_origin_in_reproductions_alone(config, modality, small):
    path = CONFIGS / f"{config}.py"
    plain = load(path, sample=small).model.modalities[modality]
    paper = load(path, ["preset=paper"], sample=small).model.modalities[modality]
    assert plain.get("class_at", "nowhere") in ("nowhere", "auto")
    assert plain.get("start", 0) == 0
    assert (paper.class_at, paper.get("start", 0)) == ("origin", 0 if modality == "events" else 1)
    if small:  # the whole recipe is the paper's
        assert load(path).model.modalities[modality].class_at == "origin"
