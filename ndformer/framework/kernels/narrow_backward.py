"""Compiled backward pass of narrow.py: weights are recomputed as in flash attention, no table of pairs is stored.

A few queries at a time are processed over all keys. Gradients of a tile of keys stay in the fastest cache meanwhile;
the gradient of a query is summed over its complete row at once, so that registers are reduced only once.
"""

import functools
from collections.abc import Callable
from typing import Any

from ndformer.framework.kernels.narrow_numba import OPTIONS, ROW, SOURCE, TILE, TOGETHER, pieces, threaded

PART = 64  # keys at a time: their channels and gradients fit in 32 KiB


@functools.cache
def compiled() -> Callable[..., Any]:
    """Return the compiled backward loops, for an even N.

    Arguments: threads, R, heads, counts (B,), rT, rL (B, 3, tiles TILE), q (R, N, D), kT, vT, kL (R, D, tiles TILE),
    parabolas (R, N, 12), weights (R, N), dout (R, N, Dv), delta (R, N); outputs dq (R, N, D), dkT and dvT like kT and
    vT, dparabolas (R, N, 9). With p = 2^(q k' + parabolas - weights) and s = p (dout v' - delta), they are s times k, q
    and the monomials of each coefficient, and p times dout.
    """
    import numpy as np
    from numba import njit, prange

    global bias, add_products, exp2, sums, add_outer, moments, sensitive, gradients  # as in narrow_numba.py
    loops, options, source = pieces(PART), OPTIONS, SOURCE
    bias, add_products, exp2, sums = loops.bias, loops.add_products, loops.exp2, loops.sums

    @njit(**options)
    def add_outer(s, t, a, b, d):
        """Add gradients of two queries to eight channels of a part of the keys."""
        a0, a1, a2, a3, a4, a5, a6, a7 = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
        b0, b1, b2, b3, b4, b5, b6, b7 = b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]
        for j in range(PART):
            x, y = s[j], t[j]
            d[j] += x * a0 + y * b0
            d[ROW + j] += x * a1 + y * b1
            d[2 * ROW + j] += x * a2 + y * b2
            d[3 * ROW + j] += x * a3 + y * b3
            d[4 * ROW + j] += x * a4 + y * b4
            d[5 * ROW + j] += x * a5 + y * b5
            d[6 * ROW + j] += x * a6 + y * b6
            d[7 * ROW + j] += x * a7 + y * b7

    @njit(**options)
    def moments(s, c, x, y, z, out, n):
        """Sum s times the monomial of each coefficient over n keys, for one query."""
        x0, y0, z0 = c[9], c[10], c[11]
        xx = xy = xz = yy = yz = zz = cx = cy = cz = np.float32(0)
        for j in range(n):
            dx, dy, dz, w = x[j] - x0, y[j] - y0, z[j] - z0, s[j]
            wx, wy, wz = w * dx, w * dy, w * dz
            xx += wx * dx
            xy += wx * dy
            xz += wx * dz
            yy += wy * dy
            yz += wy * dz
            zz += wz * dz
            cx += wx
            cy += wy
            cz += wz
        out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7], out[8] = xx, xy, xz, yy, yz, zz, cx, cy, cz

    @njit(**options)
    def sensitive(p, s, delta):
        """s = p (s - delta)."""
        for j in range(PART):
            s[j] = p[j] * (s[j] - delta)

    @njit(**options)
    def gradients(
        begin, end, heads, counts, rT, rL, q, kT, vT, kL, parabolas, weights, dout, delta, dq, dkT, dvT, dparabolas
    ):
        assert (
            source >= 0
        )  # a closure, so that the key of the cache changes with that file, whose functions are inlined
        N, D, V = q.shape[1], q.shape[2], dout.shape[2]
        p, t = np.empty(PART, np.float32), np.empty(PART, np.float32)
        sensitivity = np.empty((TOGETHER, kL.shape[2]), np.float32)
        for row in range(begin, end):
            b = row // heads
            n = counts[b]
            if n == 0:
                continue  # only padding: 0
            parts, full = (n + PART - 1) // PART, (n + 15) // 16 * 16  # full registers
            for first in range(0, N, TOGETHER):
                queries = min(TOGETHER, N - first)
                for part in range(parts):
                    lo, tile, off = part * PART, part * PART // TILE, part * PART % TILE
                    for a in range(0, queries, 2):
                        i, j = first + a, first + a + 1
                        u, w = sensitivity[a, lo : lo + PART], sensitivity[a + 1, lo : lo + PART]
                        bias(parabolas[row, i], rT[b, tile, off:], p)
                        bias(parabolas[row, j], rT[b, tile, off:], t)
                        for c in range(0, D, 8):
                            add_products(q[row, i, c : c + 8], q[row, j, c : c + 8], kT[row, tile, c // 8, off:], p, t)
                        exp2(p, weights[row, i])
                        exp2(t, weights[row, j])
                        if lo + PART > n:
                            p[n - lo :], t[n - lo :] = 0, 0
                        u[:], w[:] = 0, 0
                        for c in range(0, V, 8):
                            da, db = dout[row, i, c : c + 8], dout[row, j, c : c + 8]
                            add_products(da, db, vT[row, tile, c // 8, off:], u, w)
                            add_outer(p, t, da, db, dvT[row, tile, c // 8, off:])
                        sensitive(p, u, delta[row, i])
                        sensitive(t, w, delta[row, j])
                        if lo + PART > n:
                            u[n - lo :], w[n - lo :] = 0, 0
                        for c in range(0, D, 8):
                            add_outer(u, w, q[row, i, c : c + 8], q[row, j, c : c + 8], dkT[row, tile, c // 8, off:])
                for a in range(0, queries, 2):
                    u, w, i, j = sensitivity[a], sensitivity[a + 1], first + a, first + a + 1
                    for c in range(0, D, 8):
                        sums(u, w, kL[row, c : c + 8], dq[row, i, c : c + 8], dq[row, j, c : c + 8], full)
                    moments(u, parabolas[row, i], rL[b, 0], rL[b, 1], rL[b, 2], dparabolas[row, i], full)
                    moments(w, parabolas[row, j], rL[b, 0], rL[b, 1], rL[b, 2], dparabolas[row, j], full)

    @njit(parallel=True, **options)
    def shared(parts, n, args):
        assert source >= 0
        for part in prange(parts):
            gradients(n * part // parts, n * (part + 1) // parts, *args)

    return threaded(gradients, shared)
