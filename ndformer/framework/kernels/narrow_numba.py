"""Compiled forward loops of narrow.py: inner loops over keys are vectorized, all else stays in registers."""

import functools
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

OPTIONS: dict[str, Any] = dict(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
TILE, ROW = 128, 144  # keys in a tile, and stride between its channels: no power of 2, to avoid cache conflicts
NEGLIGIBLE = 63  # weights below 2^-63 of the largest are 0: their products with values would soon be denormals
TOGETHER = 32  # queries at a time, an even number, that reuse cached keys and values
SOURCE = zlib.crc32(Path(__file__).read_bytes())


def threaded(rows: Callable[..., Any], shared: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function (threads, n, *args) that runs rows(begin, end, *args) over range(n) on several threads.

    `shared` calls `rows` in a parallel loop.
    """
    from numba import config, get_num_threads, set_num_threads

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


@functools.cache
def pieces(length: int) -> SimpleNamespace:
    """Return the building blocks of the loops for `length` keys at a time, a compile-time constant."""
    import numpy as np
    from numba import njit

    # the factor 2^NEGLIGIBLE leaves the smallest exponent, whose bits are those of 0, to weights that are 0
    p0, p1, p2, p3, p4, p5, p6 = polynomial(lambda f: 2.0 ** (f + NEGLIGIBLE), 6)
    smallest, exponent = np.float32(-NEGLIGIBLE - 1), np.int32(NEGLIGIBLE + 1)
    as_float, options = bits(), OPTIONS

    @njit(**options)
    def bias(c, r, s):
        """s = dr' M dr + c' dr for one query and a tile of keys."""
        xx, xy, xz, yy, yz, zz, cx, cy, cz = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]
        x, y, z = c[9], c[10], c[11]
        for j in range(length):
            dx, dy, dz = r[j] - x, r[ROW + j] - y, r[2 * ROW + j] - z
            s[j] = dx * (cx + xx * dx + xy * dy + xz * dz) + dy * (cy + yy * dy + yz * dz) + dz * (cz + zz * dz)

    @njit(**options)
    def add_products(p, q, k, s, t):
        """Add products of eight channels of two queries and a tile of keys."""
        p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
        q0, q1, q2, q3, q4, q5, q6, q7 = q[0], q[1], q[2], q[3], q[4], q[5], q[6], q[7]
        for j in range(length):
            k0, k1, k2, k3 = k[j], k[ROW + j], k[2 * ROW + j], k[3 * ROW + j]
            k4, k5, k6, k7 = k[4 * ROW + j], k[5 * ROW + j], k[6 * ROW + j], k[7 * ROW + j]
            s[j] += p0 * k0 + p1 * k1 + p2 * k2 + p3 * k3 + p4 * k4 + p5 * k5 + p6 * k6 + p7 * k7
            t[j] += q0 * k0 + q1 * k1 + q2 * k2 + q3 * k3 + q4 * k4 + q5 * k5 + q6 * k6 + q7 * k7

    @njit(**options)
    def exp2(s, top):
        """Replace s by 2^(s - top), 0 where that is negligible, and return the sum."""
        total = np.float32(0)
        for j in range(len(s)):
            f = s[j] - top
            f = smallest if f < smallest else f  # NaN stays
            floor = np.floor(f)
            f -= floor
            p = p0 + f * (p1 + f * (p2 + f * (p3 + f * (p4 + f * (p5 + f * p6)))))
            p *= as_float((np.int32(floor) + exponent) << np.int32(23))
            s[j] = p
            total += p
        return total

    @njit(**options)
    def sums(p, q, v, a, b, n):
        """Sum eight channels of the values, weighted for two queries."""
        v0, v1, v2, v3, v4, v5, v6, v7 = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = np.float32(0)
        for j in range(n):
            x, y = p[j], q[j]
            a0 += x * v0[j]
            a1 += x * v1[j]
            a2 += x * v2[j]
            a3 += x * v3[j]
            a4 += x * v4[j]
            a5 += x * v5[j]
            a6 += x * v6[j]
            a7 += x * v7[j]
            b0 += y * v0[j]
            b1 += y * v1[j]
            b2 += y * v2[j]
            b3 += y * v3[j]
            b4 += y * v4[j]
            b5 += y * v5[j]
            b6 += y * v6[j]
            b7 += y * v7[j]
        b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7] = b0, b1, b2, b3, b4, b5, b6, b7
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7] = a0, a1, a2, a3, a4, a5, a6, a7

    return SimpleNamespace(bias=bias, add_products=add_products, exp2=exp2, sums=sums)


@functools.cache
def compiled() -> Callable[..., Any]:
    """Return the compiled forward loops over R = B heads rows, for an even N.

    Arguments: threads, R, heads, counts (B,), rT, q (R, N, D), kT, vT (R, Dv, tiles TILE), parabolas (R, N, 12);
    outputs out (R, N, Dv) and weights (R, N). The softmax is 2^(q k' + parabolas) over the first `counts` keys; weights
    are log2 of its denominator.
    """
    import numpy as np
    from numba import njit, prange

    # Globals, not closures: numba's cache on disk has the values of closures in its keys, and those of compiled
    # functions differ in each process, which would compile for seconds each time.
    global bias, add_products, exp2, sums, largest, attention
    loops, one, options = pieces(TILE), np.float32(1), OPTIONS
    bias, add_products, exp2, sums = loops.bias, loops.add_products, loops.exp2, loops.sums

    @njit(**options)
    def largest(s, scratch):
        for j in range(TILE):
            scratch[j] = s[j]
        for lo in range(TILE, len(s), TILE):
            part = s[lo : lo + TILE]
            for j in range(TILE):
                scratch[j] = max(scratch[j], part[j])
        for j in range(TILE // 2):
            scratch[j] = max(scratch[j], scratch[TILE // 2 + j])
        for j in range(TILE // 4):
            scratch[j] = max(scratch[j], scratch[TILE // 4 + j])
        for j in range(TILE // 8):
            scratch[j] = max(scratch[j], scratch[TILE // 8 + j])
        top = scratch[0]
        for j in range(1, TILE // 8):  # short: such a dependent chain is slow
            top = max(top, scratch[j])
        return top

    @njit(**options)
    def attention(begin, end, heads, counts, rT, q, kT, vT, parabolas, out, weights):
        N, D = q.shape[1:]
        scores, over = np.empty((TOGETHER, vT.shape[2]), np.float32), np.empty(TOGETHER, np.float32)
        scratch = np.empty(TILE, np.float32)
        for row in range(begin, end):
            b, v = row // heads, vT[row]
            n = counts[b]
            if n == 0:
                continue  # only padding: 0
            tiles, full = (n + TILE - 1) // TILE, (n + 15) // 16 * 16  # full registers
            for first in range(0, N, TOGETHER):
                queries = min(TOGETHER, N - first)
                for tile in range(tiles):
                    lo, hi = tile * TILE, (tile + 1) * TILE
                    for a in range(0, queries, 2):
                        i, j, s, t = first + a, first + a + 1, scores[a, lo:hi], scores[a + 1, lo:hi]
                        bias(parabolas[row, i], rT[b, tile], s)
                        bias(parabolas[row, j], rT[b, tile], t)
                        for c in range(0, D, 8):
                            add_products(q[row, i, c : c + 8], q[row, j, c : c + 8], kT[row, tile, c // 8], s, t)
                for a in range(queries):
                    s = scores[a]
                    s[n:] = -np.inf
                    top = largest(s[: tiles * TILE], scratch)
                    total = exp2(s[:full], top)
                    over[a], weights[row, first + a] = one / total, top + np.log2(total)
                for c in range(0, out.shape[2], 8):
                    for a in range(0, queries, 2):
                        o = out[row, first : first + queries, c : c + 8]
                        sums(scores[a], scores[a + 1], v[c : c + 8], o[a], o[a + 1], full)
                for a in range(queries):
                    for c in range(out.shape[2]):
                        out[row, first + a, c] *= over[a]

    @njit(parallel=True, **options)
    def shared(parts, n, args):
        for part in prange(parts):
            attention(n * part // parts, n * (part + 1) // parts, *args)

    return threaded(attention, shared)
