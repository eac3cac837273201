"""Files that are read in bounded time and memory, however they are made."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndformer.cli import check
from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import inside
from ndformer.framework.pictures.cards import font, shortened
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.binary import HEADER, comment_lines

CONFIGS = Path(__file__).parents[2] / "configs"


def test_headers_of_comments_are_read_once_and_have_an_end() -> None:
    """Issue 44.26: 64 KiB were copied for each line, so that 12 MB of lines took 10 s."""
    lines, taken = comment_lines(np.frombuffer(b"% x\n" * 50_000 + b"abc", np.uint8), "%")
    assert (len(lines), taken) == (50_000, 200_000)
    begin = time.process_time()
    with pytest.raises(ValueError, match=f"its header has more than {HEADER} bytes"):
        comment_lines(np.frombuffer(b"% x\n" * 3_000_000, np.uint8), "%")
    assert time.process_time() - begin < 5


def modelnet(root: Path, count: int) -> Path:
    (root / "modelnet40_shape_names.txt").write_text("box\n")
    for split in ("train", "test"):
        (root / f"modelnet40_{split}.txt").write_text("".join(f"box_{i:07}\n" for i in range(count)))
    return root


def test_a_list_of_clouds_that_are_missing_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 44.26: a million lines took over two minutes."""
    with pytest.raises(DataError, match="none of the first 10000 clouds that .*train.txt lists exists, such as .*00"):
        DATASETS.create(dict(type="ModelNet40", data_root=str(modelnet(tmp_path, 10_001)), split="train"))
    monkeypatch.setattr(check, "MAX_BAD", 7)
    cfg = load(CONFIGS / "modelnet40_plain_pape.py", [f"data_root={str(modelnet(tmp_path, 50))!r}"])
    count, wrong = check.check_split(cfg, "test", 0)
    assert (count, len(wrong)) == (7, 7)


@pytest.mark.parametrize(
    "name", ["a/b", "./a//b", "a/../b", "../root/a", "/tmp/root/a", "..", "../a", "/etc/passwd", "a/../../b", "a\0b"]
)
def test_names_in_lists_lead_where_they_led_before(name: str) -> None:
    """Names without .. at their beginning take a shorter way."""
    root = Path("/tmp/root")
    try:
        found: Any = inside(root, name)
    except DataError:
        found = None
    led = os.path.abspath(root / name)
    if "\0" in name or not Path(led).is_relative_to(root):
        assert found is None
    else:
        assert os.path.abspath(found) == led


def test_words_are_cut_where_the_first_that_does_not_fit_begins() -> None:
    """Issue 44.26: a name of 100,000 letters was measured 100,000 times."""
    word, drawn = "wheelbarrow " * 3, font(11)
    for width in (1, 20, 60, 90, 1000):
        for end in (False, True):
            found = shortened(word, width, 11, end)
            longer = [f"…{word[-n:]}" if end else f"{word[:n]}…" for n in range(2, len(word))]
            fitting = [one for one in longer if drawn.getlength(one) <= width]
            assert found == word if drawn.getlength(word) <= width else found in (fitting or [found])[-1]
    begin = time.process_time()
    assert len(shortened("x" * 100_000, 400, 11)) < 100
    assert time.process_time() - begin < 2


def test_class_names_have_a_length(tmp_path: Path) -> None:
    """Issue 44.26: in a list of classes; checkpoints are in test_checkpoint.py."""
    root = modelnet(tmp_path, 1)
    (root / "modelnet40_shape_names.txt").write_text("box\n" + "b" * 1001)
    with pytest.raises(DataError, match="expected class names of at most 1000 letters, got one of 1001 letters"):
        DATASETS.create(dict(type="ModelNet40", data_root=str(root), split="train"))
