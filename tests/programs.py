"""Programs in tests: run in this process, on small images and small models that nobody trained."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image

from ndformer.cli import program
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.model import TokenModel

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
SMALL = ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2"]
NO_WORKERS = [f"{split}_dataloader.num_workers=0" for split in SPLITS]


def run(main: Callable[[], object], *words: object) -> None:
    """Run a program with these arguments."""
    before, sys.argv = sys.argv, ["tools/program.py", *map(str, words)]
    try:
        main()
    finally:
        sys.argv = before


def refusal(main: Callable[[], object], *words: object) -> str:
    """Return the sentence with which a program ends, without the program's name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NDFORMER_DEBUG", raising=False)
        with pytest.raises(SystemExit) as end:
            run(lambda: program.run(main), *words)
    assert isinstance(end.value.code, str)  # Python prints it on stderr and exits with 1
    assert "\n" not in end.value.code
    return end.value.code.removeprefix("program: ")


def printed(capsys: pytest.CaptureFixture[str], main: Callable[[], object], *words: object) -> str:
    """Return what a program prints on both streams, and the sentence with which it ends, if it fails."""
    end = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NDFORMER_DEBUG", raising=False)
        try:
            run(lambda: program.run(main), *words)
        except SystemExit as stopped:
            end = stopped.code if isinstance(stopped.code, str) else ""
    said = capsys.readouterr()
    return said.out + said.err + end


def write_images(
    home: Path,
    classes: Sequence[str] = ("ant", "bee"),
    count: int = 4,
    splits: Sequence[str] = ("train", "test"),
    size: tuple[int, int] = (32, 32),
) -> Path:
    """Write images of noise to HOME/SPLIT/CLASS/0.png and so on, and return the folder."""
    rng = np.random.default_rng(list("/".join(splits).encode()))  # copies of another split would be refused
    for split in splits:
        for name in classes:
            (home / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(home / split / name / f"{i}.png")
    return home


def save_untrained(
    path: Path, cfg: Config, classes: Sequence[str] | None = None, head_std: float = 0.0, **content: Any
) -> TokenModel:
    """Save the checkpoint of an untrained model, and return the model.

    The weights of its head are 0, or random with `head_std`, so that answers differ.
    """
    torch.manual_seed(int(cfg.seed))
    model = build_model(cfg, "cpu").eval()
    if head_std:
        torch.nn.init.normal_(model.head.get_parameter("linear.weight"), std=head_std)
    named = {} if classes is None else dict(classes=list(classes))
    checkpoint.save(path, dict(model=model.state_dict()) | named | content)
    return model
