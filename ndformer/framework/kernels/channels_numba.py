"""The loops of channels.py, compiled: what is said of a token, from softplus to its channels, while it is at hand."""

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ndformer.framework.kernels.loops import OPTIONS, bits, polynomial, threaded

TOKENS = 64  # whose gradients of weights are summed in float32, before they are added up in float64


@functools.cache
def pieces() -> SimpleNamespace:
    import numpy as np
    from numba import njit

    e0, e1, e2, e3, e4, e5, e6 = polynomial(math.exp, 6, -0.36, 0.36)
    l0, l1, l2, l3, l4, l5, l6 = polynomial(lambda z: 2 * math.atanh(math.sqrt(z)) / math.sqrt(z), 6, 1e-9, 1 / 9)
    zero, half, one, two = (np.float32(c) for c in (0, 0.5, 1, 2))
    smallest, log2 = np.float32(-87), np.float32(math.log2(math.e))
    more, less = np.float32(0.693359375), np.float32(math.log(2) - 0.693359375)  # ln 2: few digits, and the others
    as_float, options = bits(), OPTIONS

    @njit(**options)
    def exponential(x):
        """e^x of a number that is not positive."""
        x = smallest if x < smallest else x  # NaN stays
        whole = np.floor(x * log2 + half)
        x = (x - whole * more) - whole * less
        p = e0 + x * (e1 + x * (e2 + x * (e3 + x * (e4 + x * (e5 + x * e6)))))
        return p * as_float((np.int32(whole) + np.int32(127)) << np.int32(23))

    @njit(**options)
    def logarithm(u):
        """log(1 + u) for u in 0..1, as twice the area tangent of u / (2 + u)."""
        s = u / (two + u)
        z = s * s
        return s * (l0 + z * (l1 + z * (l2 + z * (l3 + z * (l4 + z * (l5 + z * l6))))))

    @njit(**options)
    def softplus(x, f):
        for j in range(len(x)):
            f[j] = (x[j] if x[j] > zero else zero) + logarithm(exponential(-abs(x[j])))

    @njit(**options)
    def softplus_and_slope(x, f, s):
        for j in range(len(x)):
            u = exponential(-abs(x[j]))
            f[j] = (x[j] if x[j] > zero else zero) + logarithm(u)
            s[j] = (u if x[j] < zero else one) / (one + u)

    @njit(**options)
    def three_products(w, f, out):
        a = b = c = zero
        for k in range(len(f)):
            a += w[0, k] * f[k]
            b += w[1, k] * f[k]
            c += w[2, k] * f[k]
        out[0], out[1], out[2] = a, b, c

    @njit(**options)
    def add_three(w, g, d):
        a, b, c = g[0], g[1], g[2]
        for k in range(len(d)):
            d[k] += w[0, k] * a + w[1, k] * b + w[2, k] * c

    @njit(**options)
    def add_to_three(f, g, sums):
        a, b, c = g[0], g[1], g[2]
        for k in range(len(f)):
            sums[0, k] += f[k] * a
            sums[1, k] += f[k] * b
            sums[2, k] += f[k] * c

    @njit(**options)
    def product(f, g):
        total = zero
        for k in range(len(f)):
            total += f[k] * g[k]
        return total

    @njit(**options)
    def copy(given, wide):
        for c in range(len(given)):
            wide[c] = given[c]

    return SimpleNamespace(
        **{
            f.__name__: f
            for f in (softplus, softplus_and_slope, three_products, add_three, add_to_three, product, copy)
        }
    )


@functools.cache
def forward() -> Callable[..., Any]:
    """(threads, B N, q, k, v in memory, their steps (3, 3: B, H, N), h, values (B N, H (m + P)), weights (H, T, m) with
    T filled up with 0 to a multiple of three, basis (B or 1, N, E + P, W - h) of E entries and P slopes, powers
    (B or 1, N, W - h), and what is written: q, k, v (B, H, N, W))."""
    import numpy as np
    from numba import njit

    loops = pieces()
    softplus, three_products, copy = loops.softplus, loops.three_products, loops.copy
    zero = np.float32(0)

    @njit(**OPTIONS)
    def rows(begin, end, q, k, v, steps, h, values, weights, basis, powers, wide_q, wide_k, wide_v):
        _, H, N, W = wide_q.shape
        _, T, m = weights.shape
        P, E = values.shape[1] // H - m, basis.shape[2] - (values.shape[1] // H - m)
        falls, M, own = np.empty(values.shape[1], np.float32), np.empty(T, np.float32), np.empty(W - h, np.float32)
        for row in range(begin, end):
            b, n = row // N, row % N
            said, of_key, of_query = values[row], powers[min(b, len(powers) - 1), n], basis[min(b, len(basis) - 1), n]
            softplus(said, falls)
            for head in range(H):
                first = head * (m + P)
                for t in range(0, T, 3):
                    three_products(weights[head, t : t + 3], falls[first : first + m], M[t : t + 3])
                for c in range(W - h):
                    own[c] = zero
                for t in range(E):
                    for c in range(W - h):
                        own[c] += M[t] * of_query[t, c]
                for p in range(P):
                    for c in range(W - h):
                        own[c] += said[first + m + p] * of_query[E + p, c]
                at = b * steps[0, 0] + head * steps[0, 1] + n * steps[0, 2]
                copy(q[at : at + h], wide_q[b, head, n])
                copy(own, wide_q[b, head, n, h:])
                at = b * steps[1, 0] + head * steps[1, 1] + n * steps[1, 2]
                copy(k[at : at + h], wide_k[b, head, n])
                copy(of_key, wide_k[b, head, n, h:])
                at = b * steps[2, 0] + head * steps[2, 1] + n * steps[2, 2]
                copy(v[at : at + h], wide_v[b, head, n])
                wide_v[b, head, n, h:] = zero

    return threaded(rows)


@functools.cache
def backward() -> Callable[..., Any]:
    """(threads, parts, gradient of wide queries in memory, its steps (3,), h, values, weights, basis, and what is
    written: dvalues, as values, and dweights (parts, H, T, m), for sums that do not depend on how many threads there
    are; a part has TOKENS tokens)."""
    import numpy as np
    from numba import njit

    loops = pieces()
    softplus_and_slope, product = loops.softplus_and_slope, loops.product
    add_three, add_to_three, zero = loops.add_three, loops.add_to_three, np.float32(0)

    @njit(**OPTIONS)
    def parts(begin, end, gradient, steps, h, values, weights, basis, dvalues, dweights):
        H, T, m = weights.shape
        _, N, C, width = basis.shape
        K = values.shape[1] // H
        P, E = K - m, C - (K - m)
        falls, slopes = np.empty(H * K, np.float32), np.empty(H * K, np.float32)
        g = np.zeros(T, np.float32)
        for row in range(begin * TOKENS, min(end * TOKENS, len(values))):
            b, n = row // N, row % N
            of_query, sums, dsaid = basis[min(b, len(basis) - 1), n], dweights[row // TOKENS], dvalues[row]
            softplus_and_slope(values[row], falls, slopes)
            for head in range(H):
                at, first = b * steps[0] + head * steps[1] + n * steps[2] + h, head * K
                given, f, d = gradient[at : at + width], falls[first : first + m], dsaid[first : first + m]
                for t in range(E):
                    g[t] = product(of_query[t], given)
                for j in range(m):
                    d[j] = zero
                for t in range(0, T, 3):
                    add_three(weights[head, t : t + 3], g[t : t + 3], d)
                    add_to_three(f, g[t : t + 3], sums[head, t : t + 3])
                for j in range(m):
                    d[j] *= slopes[first + j]
                for p in range(P):
                    dsaid[first + m + p] = product(of_query[E + p], given)

    return threaded(parts)
