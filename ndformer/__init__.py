"""ndformer: one transformer for tokens with positions, whatever they come from.

import ndformer

model = ndformer.load("work_dirs/mnist_pape/best.pth")              # what a run left
print(model("seven.png"))                                           # paths, pictures, arrays, tensors, lists of them
network = ndformer.create("vit_small", encoding="PaPE(m=8)", classes=10)      # an nn.Module for a loop of your own
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndformer.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from ndformer.framework.engine.trained import Trained
    from ndformer.framework.model import TokenModel

__all__ = ["__version__", "create", "load"]


def load(
    path: str | Path,
    config: str | Path | None = None,
    device: str | torch.device = "cpu",
    trust_config: bool = False,
) -> Trained:
    """A run's folder, a .pth or a .safetensors file, ready to answer. Its config is the one given, or that of its
    folder, or what the file itself tells; nothing of it runs unless `trust_config`."""
    from ndformer.framework.engine import trained

    return trained.load(path, config, device, trust_config)


def create(
    name: str,
    encoding: str | dict[str, Any] | list[dict[str, Any]] = "PaPE",
    classes: int = 1000,
    modalities: dict[str, dict[str, Any]] | None = None,
    head: dict[str, Any] | None = None,
    **options: Any,
) -> TokenModel:
    """A model with weights drawn at random: vit_tiny, vit_small, vit_base, ptv3_small or ptv3_base. `encoding` is
    written as on a command line, "PaPE(m=8)"; modalities, head and further options of the backbone are as in a config:
    modalities=dict(video=dict(type="Tubelets")), depth=6."""
    from ndformer import named

    return named.create(name, encoding, classes, modalities, head, **options)
