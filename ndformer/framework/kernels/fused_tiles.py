"""What the fused kernels do with a tile of logits: places, differences, the bias and its slopes (Triton).

Tiles are queries by keys or keys by queries: what belongs to tokens along AXIS is (n, 1) or (1, n), and the rest is
broadcasting. Kinds and forms are those of fused_op.py.
"""

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

LOG2E = tl.constexpr(1.4426950408889634)
FAR = tl.constexpr(1e30)


@triton.jit
def which(H, tiles):
    """The tile, row and head of a program: those of a head follow each other, and find its keys in the cache."""
    at = tl.program_id(0) // tiles
    return tl.program_id(0) % tiles, (at // H).to(tl.int64), (at % H).to(tl.int64)


@triton.jit
def rows(base, n, step, d, N, WIDTH: tl.constexpr, D: tl.constexpr, ALL: tl.constexpr):
    """(n, D) rows of a matrix; 0 beyond its width, and beyond N unless ALL are within."""
    at = base + n[:, None] * step + d[None, :]
    if ALL:
        if WIDTH == D:
            return tl.load(at)
        else:
            return tl.load(at, mask=(d < WIDTH)[None, :], other=0.0)
    else:
        return tl.load(at, mask=(n < N)[:, None] & (d < WIDTH)[None, :], other=0.0)


@triton.jit
def row_of(base, n, N, ALL: tl.constexpr):
    """Numbers of n tokens; 0 beyond N unless ALL are within."""
    if ALL:
        return tl.load(base + n)
    else:
        return tl.load(base + n, mask=n < N, other=0.0)


@triton.jit
def forms_of(forms, b, h, n, N, step, COUNT: tl.constexpr, KIND: tl.constexpr):
    """COUNT tiles (n, 1) of the forms (B, H, F, N); a cone is the same for all queries of a head."""
    found = ()
    for f in tl.static_range(COUNT):
        at = forms + b * step[0] + h * step[1] + f * step[2]
        if KIND == "cone":
            found = found + (tl.load(at),)
        else:
            found = found + (tl.load(at + n * step[3], mask=n < N, other=1.0)[:, None],)
    return found


@triton.jit
def said_of(said, n, N, COUNT: tl.constexpr, ALL: tl.constexpr):
    """COUNT tiles (1, n) of numbers (COUNT, N)."""
    found = ()
    for f in tl.static_range(COUNT):
        found = found + (row_of(said + f * N, n, N, ALL)[None, :],)
    return found


@triton.jit
def places_of(places, b, n, N, step, P: tl.constexpr, AXIS: tl.constexpr, ALL: tl.constexpr):
    """P tiles of places (B or 1, P, N)."""
    found = ()
    for a in tl.static_range(P):
        found = found + (tl.expand_dims(row_of(places + b * step[0] + a * step[1], n, N, ALL), 1 - AXIS),)
    return found


@triton.jit
def placed_of(placed, b, n, N, step, UNPLACED: tl.constexpr, AXIS: tl.constexpr, ALL: tl.constexpr):
    """A tile of 1.0 where a token has a place, and 0.0 where not."""
    if UNPLACED:
        return tl.expand_dims(row_of(placed + b * step, n, N, ALL), 1 - AXIS)
    else:
        return 1.0


@triton.jit
def prepared(form, here, KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr):
    """Forms as `biased` has them: parabolas and slopes in powers of two, off-diagonal entries of M twice, one over a
    width; nothing of unplaced queries."""
    found = ()
    if KIND == "parabola":
        for a in tl.static_range(P):
            for b in tl.static_range(a, P):
                found = found + (form[a * P - a * (a - 1) // 2 + b - a] * (LOG2E * (1.0 if a == b else 2.0)),)
        for a in tl.static_range(P):
            found = found + (form[P * (P + 1) // 2 + a] * LOG2E,)
    elif KIND == "isotropic" or KIND == "distance":
        found = found + (form[0] * LOG2E,)
    elif KIND == "gaussian":
        found = found + (1.0 / form[0],)
    else:
        found = form
    if UNPLACED and (KIND == "parabola" or KIND == "isotropic" or KIND == "cone"):
        kept = ()
        for f in tl.static_range(COUNT):
            if KIND == "cone" and f == P:
                kept = kept + (tl.where(here > 0, found[f], -2.0),)
            else:
                kept = kept + (found[f] * here,)
        found = kept
    return found


@triton.jit
def differences(own, theirs, there, P: tl.constexpr, UNPLACED: tl.constexpr):
    """r_j - w_j r_i along each axis: `own` are the queries'."""
    dr = ()
    for a in tl.static_range(P):
        if UNPLACED:
            dr = dr + (theirs[a] - there * own[a],)
        else:
            dr = dr + (theirs[a] - own[a],)
    return dr


@triton.jit
def square(dr, P: tl.constexpr):
    """|dr|^2"""
    d = dr[0] * dr[0]
    for a in tl.static_range(1, P):
        d += dr[a] * dr[a]
    return d


@triton.jit
def norm(dr, here, P: tl.constexpr, UNPLACED: tl.constexpr):
    if P == 1:
        d = tl.abs(dr[0])
    else:
        d = tl.sqrt(square(dr, P))
    if UNPLACED:
        d *= here
    return d


@triton.jit
def biased(logits, form, dr, here, KIND: tl.constexpr, P: tl.constexpr, UNPLACED: tl.constexpr):
    """The logits, in powers of two, with their bias."""
    if KIND == "parabola":
        at: tl.constexpr = P * (P + 1) // 2
        for a in tl.static_range(P):
            slope = form[at + a] + form[a * P - a * (a - 1) // 2] * dr[a]
            for b in tl.static_range(a + 1, P):
                slope += form[a * P - a * (a - 1) // 2 + b - a] * dr[b]
            logits += slope * dr[a]
    elif KIND == "isotropic":
        logits += form[0] * square(dr, P)
    elif KIND == "distance":
        logits -= form[0] * norm(dr, here, P, UNPLACED)
    elif KIND == "power":
        d = norm(dr, here, P, UNPLACED)
        logits -= LOG2E * form[0] * tl.where(d > 0, tl.exp2(form[1] * tl.log2(d)), 0.0)
    elif KIND == "logarithm":
        logits -= form[1] * tl.log2(1.0 + form[0] * norm(dr, here, P, UNPLACED))
    elif KIND == "gaussian":
        share = norm(dr, here, P, UNPLACED) * form[0]
        logits -= (0.5 * LOG2E) * share * share
    elif KIND == "cone":
        along = form[0] * dr[0]
        for a in tl.static_range(1, P):
            along += form[a] * dr[a]
        logits = tl.where(along >= form[P] * norm(dr, here, P, False), logits, float("-inf"))
    return logits


@triton.jit
def summed(sums, d_logits, form, dr, here, KIND: tl.constexpr, P: tl.constexpr, UNPLACED: tl.constexpr):
    """Gradients of the forms (queries, F or more), with what a tile of queries by keys adds, in float32."""
    if KIND == "parabola":
        for a in tl.static_range(P):
            part = d_logits * dr[a]
            sums = added(sums, P * (P + 1) // 2 + a, tl.sum(part, 1))
            for b in tl.static_range(a, P):
                more = tl.sum(part * dr[b], 1) * (1.0 if a == b else 2.0)
                sums = added(sums, a * P - a * (a - 1) // 2 + b - a, more)
    elif KIND == "isotropic":
        sums = added(sums, 0, tl.sum(d_logits * square(dr, P), 1))
    elif KIND == "distance":
        sums = added(sums, 0, -tl.sum(d_logits * norm(dr, here, P, UNPLACED), 1))
    elif KIND == "power":
        d = norm(dr, here, P, UNPLACED)
        part = tl.where(d > 0, d_logits * tl.exp2(form[1] * tl.log2(d)), 0.0)
        log = tl.log2(tl.where(d > 0, d, 1.0)) / LOG2E
        sums = added(sums, 0, -tl.sum(part, 1))
        sums = added(sums, 1, -tl.sum(part * form[0] * log, 1))
    elif KIND == "logarithm":
        d = norm(dr, here, P, UNPLACED)
        more = 1.0 + form[0] * d
        sums = added(sums, 0, -tl.sum(d_logits * form[1] * d / more, 1))
        sums = added(sums, 1, -tl.sum(d_logits * tl.log2(more), 1) / LOG2E)
    elif KIND == "gaussian":
        d = norm(dr, here, P, UNPLACED)
        sums = added(sums, 0, tl.sum(d_logits * d * d * (form[0] * form[0] * form[0]), 1))
    return sums


@triton.jit
def added(sums, f: tl.constexpr, more):
    """(queries, F or more) with (queries,) more in column f: a tile, for each of F rows of its own would be in the
    registers of all threads that share a query."""
    return tl.where(tl.arange(0, sums.shape[1])[None, :] == f, sums + more[:, None], sums)


@triton.jit
def span(spans, b, n, N, step, TILE: tl.constexpr, SPANS: tl.constexpr, NEVER: tl.constexpr):
    """Where the spans of n tokens begin, NEVER for padding; and the first token, in whole tiles, and the end of them
    all."""
    if SPANS:
        first = tl.load(spans + b * step + n, mask=n < N, other=-1)
        last = tl.load(spans + b * step + N + n, mask=n < N, other=0)
        low = tl.min(tl.where(first < 0, N, first))
        return tl.where(first < 0, NEVER, first), low // TILE * TILE, tl.max(last)
    else:
        return n, 0, N


@triton.jit
def box_of(own, placed, b, n, N, step, KIND: tl.constexpr, P: tl.constexpr, UNPLACED: tl.constexpr):
    """The 2 P bounds of a tile of places; everywhere, where a token has none."""
    found = ()
    if KIND == "cone":
        free = False
        if UNPLACED:
            free = tl.min(tl.load(placed + b * step + n, mask=n < N, other=1.0)) == 0
        for a in tl.static_range(P):
            flat = tl.reshape(own[a], (n.shape[0],))
            low, high = tl.min(tl.where(n < N, flat, FAR)), tl.max(tl.where(n < N, flat, -FAR))
            found = found + (tl.where(free, -FAR, low), tl.where(free, FAR, high))
    return found


@triton.jit
def box_at(boxes, b, tile, step, P: tl.constexpr):
    """The 2 P bounds of another tile, from a table (B or 1, tiles, 2 P)."""
    found = ()
    for a in tl.static_range(2 * P):
        found = found + (tl.load(boxes + b * step + tile * (2 * P) + a),)
    return found


@triton.jit
def meets(cone, queries, keys, P: tl.constexpr):
    """Whether a key of one box may be in the cone of a query in the other."""
    along, nearest, farthest = 0.0, 0.0, 0.0
    for a in tl.static_range(P):
        low, high = keys[2 * a] - queries[2 * a + 1], keys[2 * a + 1] - queries[2 * a]
        along += tl.maximum(cone[a] * low, cone[a] * high)
        near, far = tl.maximum(tl.maximum(low, -high), 0.0), tl.maximum(-low, high)
        nearest += near * near
        farthest += far * far
    nearest, farthest = tl.sqrt(nearest), tl.sqrt(farthest)
    least = cone[P] * tl.where(cone[P] > 0, nearest, farthest)
    return along + 1e-5 * farthest >= least
