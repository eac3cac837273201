"""Checkpoints: plain tensors and numbers, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ndformer.framework.data import DataError

FORMAT = 1


def save(path: Path, content: dict[str, Any]) -> None:
    """Write to another name, sync, rename: an interrupted write leaves the file before it."""
    half = path.with_name(path.name + ".writing")
    with open(half, "wb") as file:
        torch.save(dict(format=FORMAT) | content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(half, path)


def load(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint; it can hold no code (weights_only)."""
    path = Path(path)
    if path.is_dir():
        inside = ", ".join(sorted(p.name for p in path.glob("*.pth"))) or "no .pth file"
        raise DataError(f"{path} is a folder, a checkpoint is a file; in it: {inside}")
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.pth")) if path.parent.is_dir() else []
        raise DataError(f"no checkpoint at {path}" + (f"; beside it: {', '.join(near)}" if near else ""))
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        why = str(error).splitlines()[0].split(". ")[0]
        raise DataError(
            f"{path} is not a checkpoint that can be read safely ({why}): give best.pth or last.pth of a run"
        ) from error
    if not isinstance(content, dict) or "model" not in content:
        raise DataError(
            f"{path} holds no 'model', so it is no checkpoint of ndformer: give best.pth or last.pth of a run"
        )
    return content


def load_weights(model: nn.Module, content: dict[str, Any], path: str | Path) -> None:
    """The weights of a checkpoint into a model built for them, or a sentence that says which do not fit."""
    own, given = model.state_dict(), content["model"]
    missing, extra = [n for n in own if n not in given], [n for n in given if n not in own]
    shapes = [
        f"{n} {tuple(given[n].shape)} instead of {tuple(own[n].shape)}"
        for n in own
        if n in given and own[n].shape != given[n].shape
    ]
    if missing or extra or shapes:
        wrong = [*(f"{n} is missing" for n in missing), *(f"{n} is not in the model" for n in extra), *shapes]
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        own_config = Path(path).parent / "config.py"
        hint = f". Its own config is {own_config}" if own_config.is_file() else ""
        raise DataError(f"{path} is of another model: {'; '.join(wrong[:3])}{more}{hint}")
    model.load_state_dict(given)
