"""Compiled loops over rows (numba) that run on torch's threads, and their building blocks."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

OPTIONS: dict[str, Any] = dict(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})


def threaded(rows: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function (threads, n, *args) that runs rows(begin, end, *args) over range(n) on several threads."""
    from numba import config, get_num_threads, njit, prange, set_num_threads

    @njit(parallel=True, **OPTIONS)
    def shared(parts, n, args):
        for part in prange(parts):
            rows(n * part // parts, n * (part + 1) // parts, *args)

    def call(threads: int, n: int, *args: Any) -> None:
        if threads == 1:
            rows(0, n, *args)
        else:
            before = get_num_threads()
            set_num_threads(min(threads, before))
            shared(4 * threads, n, args)
            set_num_threads(before)

    # OpenMP shares torch's threads; another pool would compete with them for the cores
    config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]  # pyright: ignore[reportAttributeAccessIssue]
    return call


@functools.cache
def bits() -> Any:
    """Return a numba intrinsic that reinterprets the bits of an int32 as float32."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def bits(_, number):
        return types.float32(types.int32), lambda context, builder, signature, args: builder.bitcast(
            args[0], ir.FloatType()
        )

    return bits


def polynomial(f: Callable[[float], float], degree: int) -> list[Any]:
    """Return float32 coefficients of the polynomial that equals f at the Chebyshev nodes of 0..1."""
    import numpy as np

    turns = (torch.arange(degree + 1, dtype=torch.float64) + 0.5) * math.pi / (degree + 1)
    points = (1 + turns.cos()) / 2
    values = torch.tensor([f(float(point)) for point in points], dtype=torch.float64)
    return [np.float32(c) for c in torch.linalg.solve(torch.vander(points, increasing=True), values).tolist()]
