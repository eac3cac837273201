"""Parabolas of places as extra channels on the tensor cores: the second design of the fused kernels (Triton).

With x = r_j - o and y = r_i - o, about the middle o of a tile of queries,

    dr' M dr + c' dr = x' M x + (c - 2 M y)' x + (y' M y - c' y)

is a sum of products of what a query knows and what a key knows; the rest is a number of each query, which rides on the
scaling of the logits. Differences are still taken in float32, then both factors are cut into fp16 numbers and what is
left of them, high and low: A x = Ah xh + Al xh + Ah xl, three channels a monomial, 22 bits. Places are measured
in a unit, a power of two, in which the farthest key is 16 to 32 away, so that squares and slopes both stay within
fp16's range. For gradients of keys `queries_told` writes down, once, what the queries know.
"""

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from ndformer.framework.kernels.fused_tiles import (
    FAR,
    LOG2E,
    differences,
    forms_of,
    placed_of,
    places_of,
    prepared,
    row_of,
    span,
    which,
)

SLOPES = tl.constexpr(16.0)  # channels of slopes are as large as squares, for places of 16 to 32 units
SCANNED = tl.constexpr(1024)  # tokens at a time
MOST = tl.constexpr(65504.0)  # of fp16


@triton.jit
def beyond(at, come, skipped, LATER: tl.constexpr):
    """The token at a place in the order, when some are skipped: the first ones, or LATER, those that `come`."""
    if LATER:
        return at + tl.where(at >= come, skipped, 0)
    else:
        return at + skipped


@triton.jit
def middle(own, placed, b, n, N, step, P: tl.constexpr, UNPLACED: tl.constexpr):
    """P numbers: of the box of a tile of places, (n, 1) each."""
    known = n < N
    if UNPLACED:
        known &= tl.load(placed + b * step + n, mask=known, other=0.0) > 0
    found = ()
    for a in tl.static_range(P):
        flat = tl.reshape(own[a], (n.shape[0],))
        low, high = tl.min(tl.where(known, flat, FAR)), tl.max(tl.where(known, flat, -FAR))
        found = found + (tl.where(low <= high, 0.5 * (low + high), 0.0),)
    return found


@triton.jit
def surveyed(places, placed, b, origin, low, high, step, placed_step, P: tl.constexpr, UNPLACED: tl.constexpr):
    """One over the unit of places, for the tokens from low to high; and the first token after the last unplaced one."""
    far = tl.zeros([SCANNED], tl.float32)
    last = tl.zeros([SCANNED], tl.int32)
    for start in range(low, high, SCANNED):
        n = start + tl.arange(0, SCANNED)
        there = n < high
        if UNPLACED:
            there &= tl.load(placed + b * placed_step + n, mask=there, other=1.0) > 0
            last = tl.where((n < high) & (there == 0), n + 1, last)
        for a in tl.static_range(P):
            place = row_of(places + b * step[0] + a * step[1], n, high, False)
            far = tl.maximum(far, tl.where(there, tl.abs(place - origin[a]), 0.0))
    exponent = tl.max(far).to(tl.int32, bitcast=True) >> 23
    exponent = tl.minimum(tl.maximum(exponent, 70), 190)  # so that squares of units are numbers
    return ((258 - exponent) << 23).to(tl.float32, bitcast=True), tl.max(last)


@triton.jit
def slopes_of(form, y, KIND: tl.constexpr, P: tl.constexpr):
    """What multiplies each axis of x: P tiles (n, 1)."""
    found = ()
    for a in tl.static_range(P):
        if KIND == "isotropic":
            slope = -2.0 * form[0] * y[a]
        else:
            slope = form[P * (P + 1) // 2 + a]
            for c in tl.static_range(P):
                if a == c:
                    slope -= 2.0 * form[a * P - a * (a - 1) // 2] * y[a]
                elif a < c:
                    slope -= form[a * P - a * (a - 1) // 2 + c - a] * y[c]
                else:
                    slope -= form[c * P - c * (c - 1) // 2 + a - c] * y[c]
        found = found + (slope,)
    return found


@triton.jit
def constant(form, y, slope, KIND: tl.constexpr, P: tl.constexpr):
    """y' M y - c' y: a tile (n, 1)."""
    total = 0.0
    for a in tl.static_range(P):
        own = slope[a]
        if KIND == "parabola":
            own += form[P * (P + 1) // 2 + a]
        total += y[a] * own
    return -0.5 * total


@triton.jit
def channels_of_queries(form, slope, unit, scale, n, KIND: tl.constexpr, P: tl.constexpr):
    """(queries, n) in fp16: of each monomial its number, high, low and high."""
    monomial, share = (n // 3)[None, :], (n % 3)[None, :]
    squares: tl.constexpr = P if KIND == "isotropic" else P * (P + 1) // 2
    values = tl.zeros([slope[0].shape[0], n.shape[0]], tl.float32)
    for f in tl.static_range(squares):
        values = tl.where(monomial == f, form[0 if KIND == "isotropic" else f] / (unit * unit * scale), values)
    for a in tl.static_range(P):
        values = tl.where(monomial == squares + a, slope[a] / (SLOPES * unit * scale), values)
    values = tl.clamp(values, -MOST, MOST)
    return tl.where(share == 1, values - values.to(tl.float16).to(tl.float32), values).to(tl.float16)


@triton.jit
def made_of(n, KIND: tl.constexpr, P: tl.constexpr):
    """Which two places channels n of keys are products of, and which of them are low shares."""
    monomial = n // 3
    one, two = tl.zeros_like(n), tl.zeros_like(n)
    f: tl.constexpr = P if KIND == "isotropic" else P * (P + 1) // 2
    for a in tl.static_range(P):
        for c in tl.static_range(a, P):
            if KIND == "parabola" or a == c:
                mine = monomial == (a if KIND == "isotropic" else a * P - a * (a - 1) // 2 + c - a)
                one, two = tl.where(mine, a, one), tl.where(mine, c, two)
        mine = monomial == f + a
        one, two = tl.where(mine, a, one), tl.where(mine, a, two)
    return one, two, tl.where(n % 3 == 2, 1.0, 0.0)


@triton.jit
def measured(origin, unit, n, KIND: tl.constexpr, P: tl.constexpr):
    """How channels n of keys are measured, (r_one - of_one) (r_two by + plus)."""
    monomial = n // 3
    of_one, by, plus = n * 0.0, n * 0.0, n * 0.0
    f: tl.constexpr = P if KIND == "isotropic" else P * (P + 1) // 2
    for a in tl.static_range(P):
        for c in tl.static_range(a, P):
            if KIND == "parabola" or a == c:
                mine = monomial == (a if KIND == "isotropic" else a * P - a * (a - 1) // 2 + c - a)
                of_one = tl.where(mine, origin[a], of_one)
                by = tl.where(mine, unit * unit, by)
                plus = tl.where(mine, -origin[c] * (unit * unit), plus)
        mine = monomial == f + a
        of_one, plus = tl.where(mine, origin[a], of_one), tl.where(mine, SLOPES * unit, plus)
    return of_one, by, plus


@triton.jit
def across(numbers, AXIS: tl.constexpr):
    """Each of them along an axis of a tile."""
    found = ()
    for one in tl.static_range(len(numbers)):
        found = found + (tl.expand_dims(numbers[one], 1 - AXIS),)
    return found


@triton.jit
def places_of_channels(places, b, made, j, step):
    """What channels of keys j are made of, twice; rows are long enough for the tile after the last."""
    at = places + b * step[0] + j
    return tl.load(at + made[0] * step[1]), tl.load(at + made[1] * step[1])


@triton.jit
def channels_of_keys(pair, made, measure, there, UNPLACED: tl.constexpr):
    """In fp16: of each monomial its value, high, high and low; 0 for unplaced keys."""
    of_one, by, plus = measure
    values = (pair[0] - of_one) * (pair[1] * by + plus)
    if UNPLACED:
        values = tl.where(there > 0, values, 0.0)
    return (values - made[2] * values.to(tl.float16).to(tl.float32)).to(tl.float16)


@triton.jit
def ridden(
    own, form, places, placed, b, i, N, low, high, places_step, placed_step, scale,
    KIND: tl.constexpr, P: tl.constexpr, UNPLACED: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """What a tile of queries tells keys from low to high: its channels and constants; the places that they are
    measured from, and one over the unit; and the first token after the last unplaced one."""
    origin = middle(own, placed, b, i, N, placed_step, P, UNPLACED)
    unit, last = surveyed(places, placed, b, origin, low, high, places_step, placed_step, P, UNPLACED)
    y = differences(origin, own, 1.0, P, False)
    slope = slopes_of(form, y, KIND, P)
    offset = constant(form, y, slope, KIND, P)
    more = channels_of_queries(form, slope, unit, scale * LOG2E, tl.arange(0, CHANNELS), KIND, P)
    return more, offset, origin, unit, last


@triton.jit
def queries_told(
    forms, places, placed, spans, said, riding, offsets, measures,
    forms_step, places_step, placed_step, spans_step,
    H, N, scale,
    KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr, SPANS: tl.constexpr,
    QUERIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """For gradients of keys: of a tile of queries its channels, (B, H, N, CHANNELS); (B, H, 2, N) its constants, and
    the logarithms `said` of it without them; and how keys measure theirs for it, (B, H, tiles, 3, CHANNELS)."""
    tiles = tl.cdiv(N, QUERIES)
    tile, b, h = which(H, tiles)
    i, channels = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, CHANNELS)
    here = placed_of(placed, b, i, N, placed_step, UNPLACED, 0, False)
    own = places_of(places, b, i, N, places_step, P, 0, False)
    form = prepared(forms_of(forms, b, h, i, N, forms_step, COUNT, KIND), here, KIND, P, COUNT, UNPLACED)
    _, low, high = span(spans, b, i, N, spans_step, QUERIES, SPANS, -1)
    more, offset, origin, unit, _ = ridden(
        own, form, places, placed, b, i, N, low, high, places_step, placed_step, scale, KIND, P, UNPLACED, CHANNELS
    )
    row, within = b * H + h, (i < N)[:, None]
    tl.store(riding + (row * N + i[:, None]) * CHANNELS + channels[None, :], more, mask=within)
    logarithm = tl.load(said + row * (2 + COUNT) * N + N + i[:, None], mask=within, other=0.0)
    tl.store(offsets + row * 2 * N + i[:, None], offset, mask=within)
    tl.store(offsets + row * 2 * N + N + i[:, None], logarithm - offset, mask=within)
    measure = measured(origin, unit, channels, KIND, P)
    for one in tl.static_range(3):
        tl.store(measures + (((b * H + h) * tiles + tile) * 3 + one) * CHANNELS + channels, measure[one])
