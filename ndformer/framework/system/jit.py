"""Checks for the just-in-time compiler numba; without it, torch and numpy compute the same more slowly."""

import functools
import importlib.util
import warnings

from torch import Tensor


@functools.cache
def numba_works() -> bool:
    """Return whether numba is installed, supports this numpy and has a cache folder; warn once if it fails."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        from numba import njit

        njit(cache=True)(_nothing)
    except Exception as error:  # unsupported numpy: ImportError, SystemError; read-only package and home: RuntimeError
        why = " ".join(str(error).split()) or type(error).__name__
        warnings.warn(
            f"numba is installed but fails ({why}). Continuing without it, more slowly. Install a supported numpy, and "
            "set NUMBA_CACHE_DIR to a writable folder",
            stacklevel=2,
        )
        return False
    return True


def in_memory(t: Tensor) -> bool:
    """Return whether a tensor has memory, unlike those of torch.func transforms and fake tensors."""
    try:
        t.data_ptr()
    except RuntimeError:
        return False
    return True


def _nothing() -> None: ...
