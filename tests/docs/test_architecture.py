"""docs/concepts/architecture.md: its layers (`python -m tests.docs.test_architecture` writes them) and files."""

import re
import xml.etree.ElementTree as ET

import pytest

from tests.docs import made
from tests.test_layout import ENGINE, FRAMEWORK, MODALITY

PLACE = ("docs/concepts/architecture.md", "rooms")
HOUSES = {"ndformer/framework": FRAMEWORK, "ndformer/framework/engine": ENGINE, "ndformer/modalities/*": MODALITY}
TERMS = {  # what people look for, and something that is in its file
    "NMS": "over > threshold|both > threshold",
    "learning-rate": "class WarmupCosine",
    "EVT2": "EVT3",
    "mIoU": "class MeanIoU",
    "ModelNet": "@stand_in",
    "DropPath": "class DropPath",
    "EMA": "class EMA|class Average|average",
    "kernel": "BACKENDS",
    "Hilbert": "def hilbert|[Hh]ilbert",
}


def rooms() -> str:
    blocks = [
        f"```text\n{house}\n" + "".join(f"  {'  '.join(names)}\n" for names in order) + "```\n"
        for house, order in HOUSES.items()
    ]
    return "\n" + "\n".join(blocks) + "\n"


def test_the_rooms_are_those_that_are_tested():
    again = "tests/test_layout.py has changed: `python -m tests.docs.test_architecture` writes the rooms anew"
    assert made.part(*PLACE) == rooms(), again


@pytest.mark.parametrize("term, there", TERMS.items())
def test_what_is_found_in_a_minute_is_there(term, there):
    table = (made.ROOT / PLACE[0]).read_text().partition("## Find in a minute")[2]
    (row,) = [line for line in table.splitlines() if re.match(rf"\| [^|]*{term}", line)]
    path = re.findall(r"\]\(\.\./\.\./([^)]+)\)", row)[0]
    assert re.search(there, (made.ROOT / path).read_text())


def test_its_drawing_is_small_plain_and_lies_within_its_frame():
    file = made.ROOT / "docs/images/architecture.svg"
    drawing = ET.parse(file).getroot()
    _, _, wide, high = map(float, (drawing.get("viewBox") or "").split())
    boxes = [one for one in drawing.iter() if one.tag.endswith("}rect")]
    assert len(boxes) > 10
    for box in boxes:
        x, y, width, height = (float(box.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert x + width <= wide
        assert y + height <= high
    first = next(iter(box for box in boxes))
    assert first.get("fill") == "#ffffff"  # a ground of its own: readable on dark pages too
    named = {text.text for text in drawing.iter() if text.tag.endswith("}text")}
    assert {"dataset", "collate", "adapter", "TokenSet", "backbone", "metric", "report"} <= named


if __name__ == "__main__":
    made.rewrite(*PLACE, rooms())
