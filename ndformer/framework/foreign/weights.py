"""Safe loading of the weights in untrusted checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.mounts import regular
from ndformer.framework.system import archive


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
