"""Compiled loops over rows (numba), shared among the threads that torch has, and what they are made of."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

OPTIONS: dict[str, Any] = dict(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})


def threaded(rows: Callable[..., Any]) -> Callable[..., Any]:
    """(threads, n, given) -> rows(begin, end, given) over all of n, shared among threads."""
    from numba import config, get_num_threads, njit, prange, set_num_threads

    @njit(parallel=True, **OPTIONS)
    def shared(parts, n, given):
        for part in prange(parts):
            rows(n * part // parts, n * (part + 1) // parts, *given)

    def call(threads: int, n: int, *given: Any) -> None:
        if threads == 1:
            rows(0, n, *given)
        else:
            before = get_num_threads()
            set_num_threads(min(threads, before))
            shared(4 * threads, n, given)
            set_num_threads(before)

    # OpenMP's threads are torch's own; others would fight with them for the cores
    config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]  # pyright: ignore[reportAttributeAccessIssue]
    return call


@functools.cache
def bits() -> Any:
    """The float32 that an int32 is in memory."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def bits(_, number):
        return types.float32(types.int32), lambda context, builder, signature, given: builder.bitcast(
            given[0], ir.FloatType()
        )

    return bits


def polynomial(f: Callable[[float], float], degree: int) -> list[Any]:
    """Return float32 coefficients of the polynomial that equals f at the Chebyshev nodes of 0..1."""
    import numpy as np

    turns = (torch.arange(degree + 1, dtype=torch.float64) + 0.5) * math.pi / (degree + 1)
    points = (1 + turns.cos()) / 2
    values = torch.tensor([f(float(point)) for point in points], dtype=torch.float64)
    return [np.float32(c) for c in torch.linalg.solve(torch.vander(points, increasing=True), values).tolist()]
