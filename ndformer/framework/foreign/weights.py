"""Safe loading of weights, and recognition of files with weights by their first bytes, whatever their name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.decompress import ZIP, has_zip_entry
from ndformer.framework.foreign.mounts import opened, regular
from ndformer.framework.system import archive

HEAD = 2**12  # bytes read of each file
# By name: some of these formats have no mark at their beginning
ENDINGS = (".pth", ".pt", ".pt2", ".ckpt", ".safetensors", ".onnx", ".keras", ".weights.h5")
ENTRIES = ("/data.pkl", "/archive_format", "model.weights.h5")  # of torch.save, torch.export, Keras
MAGIC = 0x1950A86A20F9469CFC6C  # the number at the beginning of torch.save's format before torch 1.6
MAGIC_PLACE = 64  # bytes within which it lies, after the pickle's header
LEGACY = (MAGIC.to_bytes(10, "little"), str(MAGIC).encode())  # in pickle protocols from 2 on, and before
PICKLED_TENSOR = b"torch._utils"  # the module of the functions that rebuild tensors
HDF5 = b"\x89HDF\r\n\x1a\n"
KERAS = (b"keras_version", b"layer_names", b"model_weights", b"_layer_checkpoint_dependencies")  # other HDF5 is data
MAX_HEADER = 10**8  # bytes, of safetensors


def load_tensors(path: Path, inside: Sequence[str] = ("state_dict", "model")) -> dict[str, Tensor]:
    """Load tensors by name without running code from the file (weights_only or safetensors).

    `inside` lists the keys under which the tensors may be nested.
    """
    from safetensors.torch import load_file

    scalar: Any = (np.float64(0).__reduce__()[0], "numpy.core.multiarray.scalar")  # metrics stored with the weights
    plain = [scalar, scalar[0], np.dtype, *(type(np.dtype(t)) for t in (np.float64, np.float32, np.int64))]
    try:
        with torch.serialization.safe_globals(plain):
            content = load_file(regular(path)) if path.suffix == ".safetensors" else archive.read(regular(path))[0]
    except FileNotFoundError:
        raise DataError(f"no checkpoint at {path}") from None
    except DataError:
        raise
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0]
        raise DataError(f"{path} is not a checkpoint that can be read safely ({why})") from error
    for key in inside:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not any(isinstance(value, Tensor) for value in content.values()):
        keys = " or ".join(map(repr, inside))
        raise DataError(f"{path} holds no weights: it should be a dict of tensors by name, or have one as {keys}")
    return {name: value for name, value in content.items() if isinstance(name, str) and isinstance(value, Tensor)}


def is_weights(path: Path) -> bool:
    """Return whether a file has weights: by its name, or by its first bytes and a zip archive's list of names."""
    if path.name.lower().endswith(ENDINGS):
        return True
    with opened(path) as file:
        head = file.read(HEAD)
    if head.startswith(ZIP):
        return has_zip_entry(path, *ENTRIES)
    if any(magic in head[:MAGIC_PLACE] for magic in LEGACY):
        return True
    if head.startswith(b"\x80"):  # a pickle
        return PICKLED_TENSOR in head
    if head.startswith(HDF5):
        return any(mark in head for mark in KERAS)
    return _is_safetensors(head)


def _is_safetensors(head: bytes) -> bool:
    """Return whether the bytes are the length of a header and the beginning of its JSON."""
    return 2 <= int.from_bytes(head[:8], "little") <= MAX_HEADER and head[8:9] == b"{" and head[9:10] in b'"} \t\r\n'
