"""Conversion by the command line."""

import re
from typing import Any

import pytest
import torch

from ndformer.framework.engine.training import checkpoint
from ndformer.framework.model import TokenModel
from tools import convert_checkpoint


@pytest.fixture
def converted(tmp_path, capsys):
    """Return a function that converts weights and returns the model of the printed parts, and the output."""

    def run(source: str, s: Any, *words: str) -> tuple[TokenModel, str]:
        torch.save(s, tmp_path / "in.pth")
        convert_checkpoint.main([source, str(tmp_path / "in.pth"), str(tmp_path / "out.pth"), *words])
        said = capsys.readouterr().out
        parts = dict(line.split("=", 1) for line in said.splitlines() if re.match("modalities=|backbone=|head=", line))
        cfg = {name: eval(text) for name, text in parts.items()}
        weights = checkpoint.load(tmp_path / "out.pth")["model"]
        if "head" not in cfg:
            cfg["head"] = dict(type="Classifier", classes=2, pool="mean")
        model = TokenModel(**cfg).eval()
        weights |= {} if "head" in parts else {f"head.{n}": value for n, value in model.head.state_dict().items()}
        checkpoint.load_weights(model, dict(model=weights), tmp_path / "out.pth")
        return model, said

    return run
