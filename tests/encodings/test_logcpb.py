"""LogCPB against the values of Swin V2's code."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ndformer.framework.attention import attend
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.tokens import Where

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "swinv2_cpb_5x7.pt"


def cells(*grid: int) -> torch.Tensor:
    return torch.cartesian_prod(*(torch.arange(float(n)) for n in grid))[None].double()


@pytest.mark.skipif(not GOLDEN.exists(), reason="no ../shared/golden")
def test_logits_are_those_of_swin_v2() -> None:
    case = torch.load(GOLDEN, weights_only=True)["case"]
    place: Any = dict(dim=64, heads=4, position_dims=2, depth=1)
    encoding = build_encoding(dict(type="LogCPB", cosine=True), **place).double()
    layer = encoding.layer(0, 1).double()
    names = dict(zip(("network.0.weight", "network.0.bias", "network.2.weight"), ("cpb_w1", "cpb_b1", "cpb_w2")))
    layer.load_state_dict(
        {ours: case[theirs] for ours, theirs in names.items()} | {"scale": case["logit_scale"].flatten()}
    )
    where = Where(cells(5, 7), grid=(5, 7))
    q, k, bias = layer(case["q"], case["k"], case["q"].transpose(1, 2).flatten(2), encoding.prepare(where))
    assert bias is not None
    torch.testing.assert_close(bias.rows(0, 35)[0], case["bias"], rtol=0, atol=1e-9)
    torch.testing.assert_close(q @ k.mT / 4 + bias.rows(0, 35), case["logits"], rtol=0, atol=1e-8)


def test_a_grid_of_training_keeps_its_scale() -> None:
    """Steps that both grids have get the same bias."""
    torch.manual_seed(0)
    place: Any = dict(dim=16, heads=2, position_dims=2, depth=1)
    small, large = (build_encoding(dict(type="LogCPB", trained=(3, 4)), **place) for _ in range(2))
    layer = small.layer(0, 1)
    rows = []
    for encoding, grid in ((small, (3, 4)), (large, (5, 6))):
        where = Where(cells(*grid).float(), grid=grid)
        q = torch.randn(1, 2, where.positions.shape[1], 8)
        bias = layer.bias(q, q, q.transpose(1, 2).flatten(2), encoding.prepare(where))
        assert bias is not None
        rows.append(bias.rows(0, 1).view(1, 2, *grid))
    torch.testing.assert_close(rows[1][..., :3, :4], rows[0])


def test_one_cell_is_no_number_less() -> None:
    encoding = build_encoding(dict(type="LogCPB"), dim=16, heads=2, position_dims=2, depth=1)
    where = Where(cells(1, 3).float(), grid=(1, 3))
    q = torch.randn(1, 2, 3, 8)
    *_, bias = encoding.layer(0, 1)(q, q, q.transpose(1, 2).flatten(2), encoding.prepare(where))
    assert attend(q, q, q, where, bias).isfinite().all()


def test_cosine_attention_comes_first_of_several_encodings():
    first, second = dict(type="AxialRoPE"), dict(type="LogCPB", cosine=True)
    build_encoding([second, first], dim=16, heads=2, position_dims=2, depth=1)
    with pytest.raises(
        ValueError, match="LogCPB normalizes q and k, and with them what AxialRoPE adds: write it first"
    ):
        build_encoding([first, second], dim=16, heads=2, position_dims=2, depth=1)
