"""Where the class token of a host model stands: as in a model of ours. No other package is needed."""

import pytest
import torch

from ndformer.integrations.hosting import Positions
from ndformer.modalities.image.adapter import ImagePatches


@pytest.mark.parametrize(
    "encoding, class_at, expected",
    [
        ("PaPE(m=5)", "auto", "centre"),
        ("ALiBi", "auto", "nowhere"),
        ("Sincos, PaPECompact", "auto", "centre"),
        ("PaPE(m=5)", "nowhere", "nowhere"),
        ("AxialRoPE", "origin", "origin"),
    ],
)
def test_the_class_token_stands_where_our_own_models_have_it(encoding, class_at, expected):
    """Issue 44.2: it stood nowhere, whatever the encoding, and PaPE is weaker so."""
    positions = Positions(encoding, dim=24, heads=2, depth=1, prefix=2, class_at=class_at)
    positions.enter(3, 4, torch.device("cpu"))
    ours = ImagePatches(24, patch=2, registers=1, class_at=expected)(torch.zeros(1, 3, 6, 8)).where
    found = positions.place.where
    torch.testing.assert_close(found.positions, ours.positions)
    assert found.grid == ours.grid
    assert (found.placed is None) == (ours.placed is None)
    if ours.placed is not None and found.placed is not None:
        assert torch.equal(found.placed, ours.placed)


def test_another_word_for_the_place_is_refused():
    with pytest.raises(ValueError, match="class_at must be one of nowhere, origin, centre, auto, got 'center'"):
        Positions("PaPE", dim=24, heads=2, depth=1, prefix=1, class_at="center")  # pyright: ignore[reportArgumentType]
