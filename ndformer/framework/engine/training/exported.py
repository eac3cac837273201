"""Export of weights as .safetensors files, with metadata for the tools and a digest."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic

FILE = "model.safetensors"  # in a published folder
METADATA, DIGEST = "ndformer", "ndformer_digest"  # keys of the file's metadata


def can_export(path: Path) -> None:
    """Make the folder of the file, and raise unless weights can be exported to this path."""
    if path.suffix != ".safetensors":
        raise DataError(f"{path}: expected a name that ends in .safetensors")
    atomic.make_parent(path)


def export(path: Path, content: dict[str, Any]) -> None:
    """Write the weights and metadata of a checkpoint to a .safetensors file."""
    import safetensors.torch

    can_export(path)
    keys = ("classes", "epoch", "metrics", "config", "data")
    about = json.dumps({name: content[name] for name in keys if name in content})
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in content["model"].items()}
    metadata = {METADATA: about, DIGEST: _digest(about, tensors)}
    with atomic.replacing(path) as half:
        half.touch()
        mode = half.stat().st_mode
        safetensors.torch.save_file(tensors, str(half), metadata=metadata)
        half.chmod(mode)  # save_file replaces the file by one that only its owner can read


def read(path: Path) -> tuple[dict[str, Any], bool]:
    """Return the content of a .safetensors checkpoint, and whether it has a (right) digest."""
    import safetensors

    with safetensors.safe_open(str(foreign.regular(path)), framework="pt") as file:
        metadata = file.metadata() or {}
        model = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    about, digest = metadata.get(METADATA, "{}"), metadata.get(DIGEST)
    if digest is not None and digest != _digest(about, model):
        raise ValueError("it is damaged: its digest does not fit")
    values = foreign.parsed_json(about.encode(), path)
    if not isinstance(values, dict):
        raise ValueError("its metadata is not a JSON object")
    return values | dict(model=model), digest is not None


def _digest(about: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.blake2b(about.encode(), digest_size=32)
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"\0{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
