"""tools/convert_checkpoint.py on Pointcept's weights. (Official numbers: test_ptv3_golden.py.)"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.foreign.weights import load_tensors
from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import HEADS
from ndformer.framework.tokens import TokenSet, Where
from ndformer.integrations.importers import pointcept
from tools import convert_checkpoint

SIZES: dict[str, Any] = dict(
    enc_depths=(1, 2, 1),
    enc_channels=(16, 32, 48),
    enc_heads=(1, 2, 3),
    dec_depths=(1, 1),
    dec_channels=(16, 32),
    dec_heads=(1, 2),
    mlp_ratio=2.0,
)


def official(model: PTv3) -> dict[str, Tensor]:
    """Return the weights of our model by Pointcept's names."""
    found = {}
    for name, value in model.state_dict().items():
        name = re.sub(r"^stem\.", "embedding.stem.", name)
        name = re.sub(r"^encoder\.(\d)\.", r"enc.enc\1.", name)
        name = re.sub(r"^decoder\.(\d)\.", lambda m: f"dec.dec{1 - int(m[1])}.", name)
        name = re.sub(r"blocks\.(\d)\.", r"block\1.", name)
        down, up = ("down", "up") if name.startswith("enc") else ("", "up")
        for ours, theirs in (
            ("cpe.conv.", "cpe.0."),
            ("cpe.linear.", "cpe.1."),
            ("cpe.norm.", "cpe.2."),
            ("norm1.", "norm1.0."),
            ("norm2.", "norm2.0."),
            ("attention.", "attn."),
            ("mlp.0.", "mlp.0.fc1."),
            ("mlp.2.", "mlp.0.fc2."),
            ("resample.norm.", "down.norm.0."),
            ("resample.proj.", f"{down or up}.proj."),
            ("resample.skip.", "up.proj_skip."),
        ):
            if ours in name:
                name = name.replace(ours, theirs)
                break
        found[name] = value
    return found


def test_a_checkpoint_of_pointcept_becomes_one_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model = PTv3(**SIZES)
    theirs = {f"module.backbone.{name}": value for name, value in official(model).items()}
    head = {"weight": torch.randn(20, 16), "bias": torch.randn(20)}
    theirs |= {f"module.seg_head.{name}": value for name, value in head.items()}
    theirs |= {"module.other.weight": torch.zeros(3)}
    content = dict(epoch=3, state_dict=theirs, best_metric_value=np.float64(0.77))
    torch.save(content, tmp_path / "in.pth")
    convert_checkpoint.main(["pointcept", str(tmp_path / "in.pth"), str(tmp_path / "out.pth")])

    weights = checkpoint.load(tmp_path / "out.pth")["model"]
    expected = {f"backbone.{name}": value for name, value in model.state_dict().items()}
    expected |= {f"head.linear.{name}": value for name, value in head.items()}
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)

    says = capsys.readouterr().out
    assert "unused: module.other.weight\n" in says
    parts = dict(line.split("=", 1) for line in says.splitlines() if line.startswith(("backbone=", "head=")))
    cfg = eval(parts["backbone"])
    points: Any = dict(points=dict(type="Points"))
    whole = TokenModel(points, cfg, eval(parts["head"]))
    checkpoint.load_weights(whole, checkpoint.load(tmp_path / "out.pth"), tmp_path / "out.pth")
    assert {name: cfg[name] for name in SIZES} == SIZES
    assert cfg["type"] == "PTv3"


def test_an_encoder_alone() -> None:
    sizes: dict[str, Any] = SIZES | dict(dec_depths=(), dec_channels=(), dec_heads=())
    cfg, weights, left = pointcept.backbone(official(PTv3(**sizes)), head_dim=16)
    assert left == []
    assert cfg["dec_depths"] == ()
    del cfg["type"]
    PTv3(**cfg).load_state_dict(weights)


def test_a_classifier_of_objects() -> None:
    """Pointcept's layers are Linear, norm, ReLU, dropout, twice, and Linear: 0, 1, 4, 5 and 8 have weights."""
    torch.manual_seed(0)
    ours = Classifier(32, 40, pool="mean", hidden=(16, 8), dropout=0.5)
    nn.init.normal_(ours.linear.weight)
    theirs = {re.sub(r"hidden\.", "cls_head.", name): value for name, value in ours.state_dict().items()}
    theirs = {re.sub(r"linear\.", "cls_head.8.", name): value for name, value in theirs.items()}
    cfg, weights, left = pointcept.head(theirs, ["odd", *theirs])
    assert left == ["odd"]
    assert cfg == dict(type="Classifier", classes=40, pool="mean", hidden=(16, 8), dropout=0.5)
    made = HEADS.create(cfg, dim=32)
    made.load_state_dict(weights)
    given = TokenSet(torch.randn(3, 5, 32), Where(torch.rand(3, 5, 3)))
    torch.testing.assert_close(made.eval()(given), ours.eval()(given))
    assert pointcept.head({}, ["odd"]) == ({}, {}, ["odd"])


def test_tables_of_relative_positions() -> None:
    """bias[i, j] = sum over axes of table[clamp(g_i - g_j) + reach + axis (2 reach + 1)], as published."""
    torch.manual_seed(0)
    reach, heads = 3, 2
    sizes: dict[str, Any] = SIZES | dict(encoding=dict(type="RelativeBias", reach=reach), cpe="none")
    model = PTv3(**sizes)
    theirs = {name: value for name, value in official(model).items() if "encoding" not in name}
    for s, depth in enumerate(SIZES["enc_depths"]):
        for b in range(depth):
            theirs[f"enc.enc{s}.block{b}.attn.rpe.rpe_table"] = torch.randn(3 * (2 * reach + 1), SIZES["enc_heads"][s])
    for s, width in enumerate(SIZES["dec_heads"]):
        theirs[f"dec.dec{s}.block0.attn.rpe.rpe_table"] = torch.randn(3 * (2 * reach + 1), width)
    cfg, weights, left = pointcept.backbone(theirs, head_dim=16)
    assert left == []
    assert (cfg["encoding"], cfg["positions"], cfg["cpe"]) == (sizes["encoding"], "grid", "none")
    del cfg["type"]
    model = PTv3(**cfg)
    model.load_state_dict(weights)

    grid = torch.randint(0, 9, (6, 3))
    table = theirs["enc.enc1.block1.attn.rpe.rpe_table"]
    dr = (grid[:, None] - grid).clamp(-reach, reach) + reach + torch.arange(3) * (2 * reach + 1)
    expected = table[dr].sum(2).permute(2, 0, 1)  # (H, N, N)
    encoding = build_encoding(sizes["encoding"], dim=32, heads=heads, position_dims=3, depth=1)
    layer: Any = model.encoder[1].blocks[1]
    attention = Attention(32, heads, layer.attention.encoding)
    torch.nn.init.zeros_(attention.qkv.weight)
    torch.nn.init.zeros_(attention.qkv.bias)
    where = Where(grid[None].float())
    torch.testing.assert_close(attention.logits(torch.randn(1, 6, 32), where, encoding.prepare(where))[0], expected)


def test_what_is_no_such_checkpoint_is_a_sentence(tmp_path: Path) -> None:
    def fails(content: Any, says: str) -> None:
        torch.save(content, tmp_path / "in.pth")
        with pytest.raises(DataError, match=says):
            convert_checkpoint.main(["pointcept", str(tmp_path / "in.pth"), str(tmp_path / "out.pth")])
        assert not (tmp_path / "out.pth").exists()

    whole = official(PTv3(**SIZES))
    fails([1, 2], "holds no weights")
    fails(dict(a=torch.zeros(2)), "no weights of a Point Transformer V3")
    fails({n: v for n, v in whole.items() if "enc1.block" not in n}, "no weights of encoder.1.*.*whole")
    fails({n: v for n, v in whole.items() if n != "enc.enc1.block0.norm1.0.weight"}, "norm1.weight were found")
    fails({n: v for n, v in whole.items() if n != "enc.enc1.block0.norm1.0.bias"}, "norm1.bias is missing")
    fails(whole | {"embedding.stem.conv.weight": torch.zeros(16, 3, 3, 3, 6)}, r"\(16, 3, 3, 3, 6\) instead of")
    fails(
        {n: v[:10] if v.shape == (16,) else v for n, v in whole.items()},
        "expected a head width that divides the channels .*, got 16",
    )
    (tmp_path / "in.pth").write_bytes(b"half")
    with pytest.raises(DataError, match="cannot|not a checkpoint"):
        load_tensors(tmp_path / "in.pth")


@pytest.mark.parametrize("option, origin", [("--fov", "lookhere"), ("--rope-base", "naflexvit")])
def test_options_of_other_sources_are_refused(option, origin, tmp_path):
    with pytest.raises(DataError, match=f"{option} is an option of {origin}, got timm: leave it out"):
        convert_checkpoint.main(["timm", str(tmp_path / "in.pth"), str(tmp_path / "out.pth"), option, "90"])
