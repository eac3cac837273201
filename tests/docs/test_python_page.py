"""docs/reference/python.md: its code runs, on an untrained model."""

import re
from typing import Any

import numpy as np
import torch
from PIL import Image

from ndformer.framework.engine.config.load import load
from tests.docs.pages import CONFIGS, DOCS, ROOT, code_of
from tests.programs import save_untrained

PAGE = (DOCS / "reference" / "python.md").read_text()
BLOCKS = code_of(PAGE)


def test_its_code_does_what_its_comments_say(tmp_path, monkeypatch, capsys):
    home = tmp_path / "work_dirs" / "mnist_small_sample"
    home.mkdir(parents=True)
    cfg = load(CONFIGS / "mnist_small.py", sample=True)
    save_untrained(home / "best.pth", cfg, [str(i) for i in range(10)], config=cfg.pretty_text)
    Image.fromarray(np.eye(28, dtype=np.uint8) * 255).save(tmp_path / "seven.png")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(block, names)
    assert len(BLOCKS) == 3
    assert re.fullmatch(r"(\d 0\.\d{3}  ){2}\d 0\.\d{3}\n", capsys.readouterr().out)
    with Image.open("seen.png") as seen:
        assert seen.size == (280, 280)
        red, *cyan = seen.split()
        row, column = divmod(int(names["seen"].argmax()), 7)
        assert red.getpixel((40 * column + 20, 40 * row + 20)) > 240
        assert all(channel.getpixel((105, 105)) > 240 for channel in cyan)  # over the digit
    assert names["seen"].shape == (7, 7)
    assert names["terms"].keys() == {"semantic", "distance", "direction"}
    assert [layer.shape for layer in names["layers"]] == [(1, 4, 50, 50)] * 4
    assert names["logits"].shape == (2, 10)
    assert names["network"](torch.zeros(1, 2, 3, 16, 16, dtype=torch.uint8)).shape == (1, 6)


def test_it_names_every_modality_that_takes_files():
    rows = set(re.findall(r"^\| (\w+) \| [^-]", PAGE.partition("## Outputs")[0], re.MULTILINE)) - {"modality"}
    adapters = (ROOT / "ndformer" / "modalities").glob("*/adapter.py")
    folders = {path.parent.name for path in adapters if "endings = " in path.read_text()}
    assert rows == {"points" if name == "pointcloud" else name for name in folders}
