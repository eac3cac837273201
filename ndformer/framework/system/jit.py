"""Whether numba, a just-in-time compiler, works here, and on what. Where it does not, torch and numpy do the same more
slowly."""

import functools
import importlib.util
import warnings

from torch import Tensor


@functools.cache
def numba_works() -> bool:
    """It is installed, takes this numpy, and has a folder for what it compiles. Said once where it is no use."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        from numba import njit

        njit(cache=True)(_nothing)
    except Exception as error:  # of another numpy ImportError, SystemError; of a package and a home that are read-only
        why = " ".join(str(error).split()) or type(error).__name__
        warnings.warn(
            f"numba is installed and does not work here ({why}): going on without it, more slowly. It wants a numpy "
            "that it knows, and a folder to write in, which NUMBA_CACHE_DIR names",
            stacklevel=2,
        )
        return False
    return True


def in_memory(t: Tensor) -> bool:
    """Not one that torch.func transforms, or that stands for another."""
    try:
        t.data_ptr()
    except RuntimeError:
        return False
    return True


def _nothing() -> None: ...
