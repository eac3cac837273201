"""DirectionalRPE: the numbers of the published code, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ndformer.framework.attention import build_encoding
from ndformer.framework.tokens import Where

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "vitarc_rpe.pt"


def golden() -> dict[str, Any]:
    if not GOLDEN.exists():
        pytest.skip("the values of the public code are not here")
    return torch.load(GOLDEN, weights_only=True)


def bias(heads: int, grid: tuple[int, int], **options: Any) -> torch.Tensor:
    encoding = build_encoding(
        dict(type="DirectionalRPE", **options), dim=heads * 4, heads=heads, position_dims=2, depth=1
    )
    positions = torch.cartesian_prod(*[torch.arange(n).double() for n in grid])[None]
    q = torch.zeros(1, heads, positions.shape[1], 4)
    _, _, actual = encoding.layer(0, 1)(q, q, q, encoding.prepare(Where(positions)))
    assert actual is not None
    return actual.rows(0, positions.shape[1])[0]


@pytest.mark.parametrize("case", ["two_5x7_h4", "two_6x6_h6", "two_3x4_h8", "four_5x7_h4", "four_6x6_h2"])
def test_the_preset_is_the_published_code(case: str) -> None:
    """Between the tokens of the grid: its first and last token have no place here, so there is no bias for them."""
    expected = golden()["rpe"][case]
    actual = bias(
        expected["heads"], (expected["rows"], expected["cols"]), preset="repo", diagonals=case.startswith("four")
    )
    assert (actual - expected["bias"][:, 1:-1, 1:-1]).abs().max() <= 1e-6


def test_paper_and_code_agree_for_eight_heads_alone() -> None:
    assert torch.equal(bias(8, (3, 4)), bias(8, (3, 4), preset="repo", diagonals=False))
    assert not torch.allclose(bias(4, (3, 4)), bias(4, (3, 4), preset="repo", diagonals=False))
