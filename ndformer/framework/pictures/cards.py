"""Helpers to draw cards of samples: sizes, colors, fonts, resized pictures and shortened text."""

import colorsys
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.moved import old_names

SIZE, EDGE, LINE = 256, 12, 18  # pixels of a card's picture, margin and line of text
INK, GRAY, RIGHT, WRONG, OTHER = (20, 20, 20), (120, 120, 120), (0, 128, 96), (200, 70, 20), (140, 165, 200)


def class_colors(count: int) -> np.ndarray:
    """Return a color (count, 3) uint8 for each class; class i has the same color for any `count`."""
    turns = np.arange(count) * 0.381966 % 1  # the golden angle: neighboring classes differ clearly
    rows = [colorsys.hsv_to_rgb(float(turn), 0.75 if i % 2 else 0.5, 0.95) for i, turn in enumerate(turns)]
    return (np.array(rows).reshape(-1, 3) * 255).astype(np.uint8)


def resize_to_fit(pixels: np.ndarray, height: int, width: int) -> Any:
    """Return a PIL image as large as fits into (height, width); enlarged images keep sharp pixels."""
    from PIL import Image

    image = Image.fromarray(pixels)
    scale = min(height / image.height, width / image.width)
    if scale == 1:
        return image
    resample = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    return image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), resample)


def font(size: int) -> Any:
    """Return matplotlib's font, which has more than Latin letters."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)


def shortened(text: str, width: int, size: int, end: bool = False) -> str:
    """Return the text, or its start (`end`: its end) and an ellipsis, so that it fits into `width` pixels."""
    text = foreign.printable(text)
    face = font(size)
    cut = lambda n: text if n == len(text) else f"…{text[len(text) - n :]}" if end else f"{text[:n]}…"
    low, high = 1, min(len(text), 4 * width)  # letters; hardly any is narrower than a quarter of a pixel
    while low < high:
        letters = (low + high + 1) // 2
        low, high = (letters, high) if face.getlength(cut(letters)) <= width else (low, letters - 1)
    return cut(low)


def card(picture: Any, verdict: str, title: str, color: tuple[int, int, int] = INK) -> Any:
    """Return a PIL image with a verdict above the picture and a title below it."""
    from PIL import Image, ImageDraw

    wide = picture.width + 2 * EDGE
    sheet = Image.new("RGB", (wide, picture.height + 2 * LINE + 3 * EDGE), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((EDGE, EDGE - 4), shortened(verdict, wide - 2 * EDGE, 15), fill=color, font=font(15))
    sheet.paste(picture, (EDGE, EDGE + LINE + 4))
    name = shortened(title, wide - 2 * EDGE, 10, end=True)
    pen.text((EDGE, picture.height + LINE + 2 * EDGE), name, fill=GRAY, font=font(10))
    return sheet


__getattr__ = old_names(__name__, {"class_colours": "class_colors", "fitted": "resize_to_fit"})
