"""Weights in the layout of timm's NaFlexViT give the logits of plain torch, on packed rectangles."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.registry import IMPORTERS
from tests.integrations.importers import plain
from tests.integrations.importers.given import GAMMA, HEADS, LS, PATCH, D, before, naflexvit
from tests.integrations.importers.plain import State

GRIDS = [(5, 2), (4, 4), (1, 3)]
RECTANGLES = [torch.randn(3, PATCH * r, PATCH * c, generator=torch.Generator().manual_seed(r)) for r, c in GRIDS]


def logits(s: State, image: Tensor, base: float) -> Tensor:
    """Return the logits (5,) of one image."""
    rows, columns = image.shape[1] // PATCH, image.shape[2] // PATCH
    cut = image.reshape(3, rows, PATCH, columns, PATCH).permute(1, 3, 2, 4, 0).reshape(1, rows * columns, -1)
    x = F.linear(cut, s["embeds.proj.weight"], s["embeds.proj.bias"])
    if "embeds.pos_embed" in s:
        table = s["embeds.pos_embed"].permute(0, 3, 1, 2)
        x = x + F.interpolate(table, (rows, columns), mode="bicubic", antialias=True).flatten(2).transpose(1, 2)
    tokens = s["embeds.cls_token" if "embeds.cls_token" in s else "embeds.reg_token"]
    prefix = tokens.shape[1]
    place = torch.cartesian_prod(torch.arange(rows).double(), torch.arange(columns).double()).view(-1, 2)

    def turn(q: Tensor, layer: int) -> Tensor:
        if "rope.freqs" in s:
            angle = torch.einsum("np,phf->hnf", place, s["rope.freqs"][:, layer].double())
        else:
            steps = base ** -(torch.arange(4).double() / 4)
            angle = torch.cat([place[:, :1] * steps, place[:, 1:] * steps], dim=1)[None]
        pairs = torch.view_as_complex(q[:, :, prefix:].double().unflatten(-1, (-1, 2)).contiguous())
        turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
        return torch.cat([q[:, :, :prefix], turned.to(q.dtype)], dim=2)

    names = LS if "blocks.0.ls1.gamma" in s else GAMMA
    x = plain.blocks(s, before(tokens, x), HEADS, 1e-6, names, turn if base or "rope.freqs" in s else None)
    if "fc_norm.weight" in s:
        x = plain.norm(s, "fc_norm", x[:, prefix:].mean(1), 1e-6)
    else:
        x = plain.norm(s, "norm", x, 1e-6)[:, 0]
    return F.linear(x, s["head.weight"], s["head.bias"])[0]


@pytest.mark.parametrize(
    "s, base",
    [
        (naflexvit(), 0),
        (naflexvit(GAMMA, grid=None), 10_000),
        (naflexvit(GAMMA, pool_norm=False), 100),
        (naflexvit(GAMMA, mixed=True), 0),
        (naflexvit(GAMMA, grid=None, mixed=True), 0),
    ],
    ids=["table", "axial RoPE", "class token, table and axial RoPE", "table and RoPE-Mixed", "RoPE-Mixed"],
)
def test_rectangles_give_the_logits_of_each_image(s, base, converted):
    model, report = converted("naflexvit", s, "--head-dim", "16", "--rope-base", str(base))
    actual, expected = model(RECTANGLES), torch.stack([logits(s, image, base) for image in RECTANGLES])
    assert expected.std() > 0.1
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    assert ("no axial RoPE" in report) == (base == 0 and "rope.freqs" not in s)
    assert "unused: nothing\n" in report


def test_options_that_the_weights_lack_are_required(tmp_path):
    convert = IMPORTERS.get("naflexvit").convert
    with pytest.raises(DataError, match="neither a table nor frequencies: expected the base") as error:
        convert(naflexvit(grid=None), 16)
    assert error.value.option == "--rope-base N"
    with pytest.raises(DataError, match=r"rope.freqs has shape \(2, 2, 2, 8\) instead of \(2, 2, 4, 4\)"):
        convert(naflexvit(mixed=True), 8)
    with pytest.raises(DataError, match="embeds.pos_embed_y .* our model has no place"):
        convert(naflexvit() | {"embeds.pos_embed_y": torch.zeros(1, 3, D)}, 16)
    with pytest.raises(DataError, match=r"embeds.proj.weight should be a convolution, got \(32, 50\)"):
        convert(naflexvit() | {"embeds.proj.weight": torch.zeros(D, 50)}, 16)
