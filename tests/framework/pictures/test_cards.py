"""Text on cards: any name is drawn, in a line as long as fits."""

import numpy as np
import pytest

from ndformer.framework.answers.boxes import Box, draw
from ndformer.framework.pictures.cards import card, resize_to_fit, shortened


@pytest.mark.parametrize("name", ["two\nlines", "two\u2028lines", "\x1b[31m", "half \ud800"])
def test_names_of_any_letters_are_drawn(name):
    """Issue 44.30: show_attention ended with 'can't measure length of multiline text' and raqm's errors."""
    pixels = np.zeros((8, 8, 3), np.uint8)
    assert shortened(name, 400, 11).isprintable()
    assert card(resize_to_fit(pixels, 64, 64), name, name).width > 64
    box = Box((1, 1, 5, 5), (0, 0, 0), name)
    assert draw(pixels, [box], 64, 64).size == (64, 64)
