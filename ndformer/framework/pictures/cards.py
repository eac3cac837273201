"""What cards of samples are drawn with: sizes, colours, pictures as large as fits, text as long as fits."""

import colorsys
from typing import Any

import numpy as np

from ndformer.framework import foreign

SIZE, EDGE, LINE = 256, 12, 18  # of a card: its picture, its margin, a line of text
INK, GREY, RIGHT, WRONG, OTHER = (20, 20, 20), (120, 120, 120), (0, 128, 96), (200, 70, 20), (140, 165, 200)


def class_colours(count: int) -> np.ndarray:
    """(count, 3) uint8, each class its own, whatever others there are."""
    turns = np.arange(count) * 0.381966 % 1  # the golden section: neighbours are far apart
    rows = [colorsys.hsv_to_rgb(float(turn), 0.75 if i % 2 else 0.5, 0.95) for i, turn in enumerate(turns)]
    return (np.array(rows).reshape(-1, 3) * 255).astype(np.uint8)


def resize_to_fit(pixels: np.ndarray, height: int, width: int) -> Any:
    """As a PIL image, as large as fits; small ones show their pixels."""
    from PIL import Image

    image = Image.fromarray(pixels)
    scale = min(height / image.height, width / image.width)
    if scale == 1:
        return image
    resample = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    return image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), resample)


def font(size: int) -> Any:
    """The one that comes with matplotlib: it has more than Latin letters."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)


def shortened(text: str, width: int, size: int, end: bool = False) -> str:
    """As much of a text as fits, from its start or its end, in one line that Pillow can draw."""
    text = foreign.printable(text)
    drawn = font(size)
    cut = lambda n: text if n == len(text) else f"…{text[len(text) - n :]}" if end else f"{text[:n]}…"
    fewest, most = 1, min(len(text), 4 * width)  # letters; hardly any is narrower than a quarter of a pixel
    while fewest < most:
        letters = (fewest + most + 1) // 2
        fewest, most = (letters, most) if drawn.getlength(cut(letters)) <= width else (fewest, letters - 1)
    return cut(fewest)


def card(drawn: Any, says: str, title: str, colour: tuple[int, int, int] = INK) -> Any:
    """A picture below what is said of it and above its name."""
    from PIL import Image, ImageDraw

    wide = drawn.width + 2 * EDGE
    sheet = Image.new("RGB", (wide, drawn.height + 2 * LINE + 3 * EDGE), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((EDGE, EDGE - 4), shortened(says, wide - 2 * EDGE, 15), fill=colour, font=font(15))
    sheet.paste(drawn, (EDGE, EDGE + LINE + 4))
    name = shortened(title, wide - 2 * EDGE, 10, end=True)
    pen.text((EDGE, drawn.height + LINE + 2 * EDGE), name, fill=GREY, font=font(10))
    return sheet
