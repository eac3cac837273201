"""Weights for elsewhere: .safetensors files, with what the tools need beside the weights and a digest of both."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic

PLACE = "model.safetensors"  # in a folder that is published
ABOUT, DIGEST = "ndformer", "ndformer_digest"  # in the file's metadata


def can_export(path: Path) -> None:
    """Make the folder of the file, and raise unless weights can be exported to a file of this name."""
    _safetensors()
    if path.suffix != ".safetensors":
        raise DataError(f"weights are exported as .safetensors, got {path}")
    atomic.make_parent(path)


def export(path: Path, content: dict[str, Any]) -> None:
    """The weights of a checkpoint as .safetensors, with what the tools need beside them."""
    can_export(path)
    kept = ("classes", "epoch", "metrics", "config", "data")
    about = json.dumps({name: content[name] for name in kept if name in content})
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in content["model"].items()}
    metadata = {ABOUT: about, DIGEST: _digest(about, tensors)}
    with atomic.replacing(path) as half:
        half.touch()
        usual = half.stat().st_mode
        _safetensors().torch.save_file(tensors, str(half), metadata=metadata)
        half.chmod(usual)  # it puts a file of its own there, for its owner alone


def read(path: Path) -> tuple[dict[str, Any], bool]:
    """As archive.read: the content of a checkpoint, and whether it has a digest, which is then right."""
    with _safetensors().safe_open(str(foreign.regular(path)), framework="pt") as file:
        metadata = file.metadata() or {}
        model = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    about, digest = metadata.get(ABOUT, "{}"), metadata.get(DIGEST)
    if digest is not None and digest != _digest(about, model):
        raise ValueError("it is damaged: its digest does not fit")
    told = foreign.parsed_json(about.encode(), path)
    if not isinstance(told, dict):
        raise ValueError("what stands beside its weights is no table")
    return told | dict(model=model), digest is not None


def _digest(about: str, tensors: dict[str, Tensor]) -> str:
    """Of names, types, shapes and bytes, in the order of names."""
    found = hashlib.blake2b(about.encode(), digest_size=32)
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        found.update(f"\0{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise DataError(".safetensors takes a package that is not installed: pip install safetensors") from None
    return safetensors
