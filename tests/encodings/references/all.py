"""All cases and references of this folder, which has one file for each file of ndformer/encodings."""

import importlib
from pathlib import Path
from typing import Any

import torch

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.registry import ENCODINGS
from tests.encodings.references.base import Reference

ENCODINGS.get("NoPE")  # finds them all
CASES: dict[str, dict[str, Any]] = {}  # name -> config
REFERENCES: dict[str, type[Reference]] = {}  # registry name -> class
for _file in sorted(Path(__file__).parent.glob("*.py")):
    if _file.stem not in ("all", "base"):
        _module = importlib.import_module(f"tests.encodings.references.{_file.stem}")
        _kinds = {name: kind for name, kind in vars(_module).items() if name in ENCODINGS.module_dict}
        _kinds = {name: kind for name, kind in _kinds.items() if kind.__module__ == _module.__name__}
        REFERENCES |= _kinds
        CASES |= getattr(_module, "CASES", {name: dict(type=name) for name in _kinds})


def allows(cfg: dict[str, Any], dims: int) -> bool:
    """Whether the encoding is defined for so many position dimensions."""
    try:
        built(cfg, dims)
    except ValueError:
        return False
    return True


def needs_grid(cfg: dict[str, Any]) -> bool:
    return next(built(cfg, dims).needs_grid for dims in (2, 1, 3, 4, 5, 6) if allows(cfg, dims))


def built(cfg: dict[str, Any], dims: int) -> PositionEncoding:
    if cfg.get("joint"):
        cfg = cfg | {"reach": cfg["reach"][:dims]}
    with torch.random.fork_rng(devices=[]):
        return build_encoding(cfg, dim=144, heads=3, position_dims=dims, depth=4)
