"""Weights with unknown names or wrong shapes are refused."""

import re

import pytest
import torch
from safetensors.torch import save_file

from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.registry import IMPORTERS
from ndformer.integrations.importers.vit import _ratio
from tests.integrations.importers.given import CLS, DEPTH, GAMMA, HEAD, LS, TABLES, D, N, R, naflexvit, vit
from tests.integrations.importers.plain import State
from tools import convert_checkpoint

WHOLE = vit(LS, **CLS, pos_embed=(1, N + 1, D), **HEAD)
ZERO = torch.zeros(D)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"dist_token": torch.zeros(1, 1, D)}, r"dist_token \(1, 1, 32\): our model has no place for what these do"),
        (
            {"fc_norm.weight": ZERO, "fc_norm.bias": ZERO},
            r"fc_norm.weight \(32,\), fc_norm.bias \(32,\): our model has",
        ),
        ({"blocks.1.attn.q_norm.weight": ZERO}, "q_norm.weight"),
        ({"blocks.0.mlp.w12.weight": ZERO}, r"blocks.0.mlp.w12.weight is of a gated MLP \(SwiGLU\)"),
        ({"pos_embed": torch.zeros(1, N + 3, D)}, "pos_embed has 19 entries: a square and 0 or 1 before it"),
        ({"pos_embed": torch.zeros(1, N + 1, 8)}, r"pos_embed has shape \(1, 17, 8\) instead of \(1, any, 32\)"),
        ({"blocks.1.attn.qkv.weight": torch.zeros(D, D)}, r"blocks.1.attn.qkv.weight has shape .* of \(96, 32\)"),
        ({"patch_embed.proj.weight": torch.zeros(D, 3, 4, 2)}, "patches of 4 x 2: ours are square"),
        (
            {"patch_embed.proj.weight": torch.zeros(D, 3)},
            r"patch_embed.proj.weight should be a convolution, got \(32, 3\)",
        ),
        (
            {"blocks.0.norm1.bias": None, "blocks.0.norm1.weight": None},
            "no weights of blocks.0.norm1.weight were found",
        ),
        ({"norm.weight": None}, "no weights of norm.weight"),
    ],
)
def test_what_has_no_place_here_is_refused_by_name_and_shape(change, says, tmp_path):
    s = {name: value for name, value in (WHOLE | change).items() if value is not None}
    torch.save(s, tmp_path / "in.pth")
    with pytest.raises(DataError, match=says):
        convert_checkpoint.main(["timm", str(tmp_path / "in.pth"), str(tmp_path / "out.pth"), "--head-dim", "16"])
    assert not (tmp_path / "out.pth").exists()


OTHERS: dict[str, tuple[str, State]] = {
    "timm": TABLES["timm, all registers in the table"],
    "rope-vit": ("rope-vit", vit(GAMMA, **CLS, pos_embed=(1, N, D), freqs=(2, DEPTH, D // 2))),
    "dinov3": ("dinov3", vit(LS, **CLS, storage_tokens=(1, R, D), **{"rope_embed.periods": (4,)})),
    "naflexvit": ("naflexvit", naflexvit(GAMMA, mixed=True)),
    "vjepa2": ("vjepa2", vit(**{"patch_embed.proj.weight": (D, 3, 2, 4, 4)})),
}


@pytest.mark.parametrize("case", OTHERS)
def test_an_entry_of_any_other_shape_is_a_sentence(case):
    source, s = OTHERS[case]
    IMPORTERS.get(source).convert(dict(s), 16)
    for name, value in s.items():
        for strange in (value[..., None], torch.zeros(())):
            with pytest.raises(DataError, match=re.escape(name.removesuffix(".weight").removesuffix(".bias"))):
                IMPORTERS.get(source).convert(s | {name: strange}, 16)


def test_heads_are_as_wide_as_one_says(tmp_path):
    torch.save(WHOLE, tmp_path / "in.pth")
    with pytest.raises(DataError, match="expected a head width that divides 32 channels, got 64"):
        convert_checkpoint.main(["deit", str(tmp_path / "in.pth"), str(tmp_path / "out.pth")])
    with pytest.raises(DataError, match="LookHere of 90 degrees has 6, 12 or 16 heads, got 2"):
        IMPORTERS.get("lookhere").convert(vit(LS, **CLS), 16)
    with pytest.raises(DataError, match="LookHere's 16 heads with 180 degrees have other directions"):
        IMPORTERS.get("lookhere").convert(vit(LS, **CLS), 2, 180)
    with pytest.raises(DataError, match="Event models cannot be converted"):
        IMPORTERS.get("pape").convert({"embedding.projection.weight": torch.zeros(8, 2, 4, 4)}, 16)


@pytest.mark.parametrize("dim, hidden", [(1408, 6144), (1664, 8192), (1152, 4304), (384, 1536)])
def test_any_width_of_an_mlp_is_told_exactly(dim, hidden):
    """Some published ratios, such as V-JEPA 2's 48 / 11, are not round."""
    assert int(dim * _ratio(hidden, dim)) == hidden


def test_weights_come_as_safetensors_too(tmp_path, converted, capsys):
    save_file(WHOLE, tmp_path / "in.safetensors")
    convert_checkpoint.main(["timm", str(tmp_path / "in.safetensors"), str(tmp_path / "safe.pth"), "--head-dim", "16"])
    capsys.readouterr()
    converted("timm", WHOLE, "--head-dim", "16")
    one, other = (checkpoint.load(tmp_path / name)["model"] for name in ("safe.pth", "out.pth"))
    assert all(torch.equal(one[name], other[name]) for name in one | other)


def test_every_source_says_its_license():
    assert all(source.license and source.inside and source.head_dim for source in IMPORTERS.all().values())
