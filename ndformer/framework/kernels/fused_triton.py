"""The fused kernels: flash attention whose bias is made inside, from places and from numbers of the queries.

Differences of places are taken before anything is multiplied: no extent costs digits. A key without a place stands at 0
and has w_j = 0, and then dr = r_j - w_j r_i is 0, and so is its bias; it is one operation either way. Logits are
in powers of two. Each program has its own rows of the results: no atomics, the same bits each time.

Steps of q, k, v and the like are those of (B, H, N), in elements; those of forms of (B, H, F, N); others of B.
"""

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from ndformer.framework.kernels.fused_tiles import (
    LOG2E,
    biased,
    box_at,
    box_of,
    differences,
    forms_of,
    meets,
    placed_of,
    places_of,
    prepared,
    row_of,
    rows,
    said_of,
    span,
    summed,
    which,
)


@triton.jit
def forward(
    q, k, v, forms, places, placed, spans, boxes, out, lse, rest,
    q_step, k_step, v_step, out_step, forms_step, places_step, placed_step, spans_step, boxes_step,
    H, N, scale,
    KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr, SPANS: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """A tile of queries, over all keys in their spans. What rounding takes from `out` is `rest`, if it is asked."""
    tile, b, h = which(H, tl.cdiv(N, QUERIES))
    i, d = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, D)
    qs = rows(q + b * q_step[0] + h * q_step[1], i, q_step[2], d, N, WIDTH, D, False)
    k += b * k_step[0] + h * k_step[1]
    v += b * v_step[0] + h * v_step[1]
    here = placed_of(placed, b, i, N, placed_step, UNPLACED, 0, False)
    own = places_of(places, b, i, N, places_step, P, 0, False)
    cone = forms_of(forms, b, h, i, N, forms_step, COUNT, KIND)
    form = prepared(cone, here, KIND, P, COUNT, UNPLACED)
    box = box_of(own, placed, b, i, N, placed_step, KIND, P, UNPLACED)
    first, low, high = span(spans, b, i, N, spans_step, KEYS, SPANS, -1)
    most = tl.full([QUERIES], -1e30, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, D], tl.float32)
    whole = N // KEYS * KEYS
    for part in tl.static_range(1 if SPANS else 0, 2):  # whole tiles without a mask, then the others
        for start in range(low if part == SPANS else whole, high if part else whole, KEYS):
            look = True
            if KIND == "cone":
                look = meets(cone, box, box_at(boxes, b, start // KEYS, boxes_step, P), P)
            if look:
                j = start + tl.arange(0, KEYS)
                ks = rows(k, j, k_step[2], d, N, WIDTH, D, part == 0)
                there = placed_of(placed, b, j, N, placed_step, UNPLACED, 1, part == 0)
                logits = tl.dot(qs, tl.trans(ks), input_precision=PRECISION) * (scale * LOG2E)
                theirs = places_of(places, b, j, N, places_step, P, 1, part == 0)
                dr = differences(own, theirs, there, P, UNPLACED)
                logits = biased(logits, form, dr, here, KIND, P, UNPLACED)
                if SPANS:
                    theirs_first, _, _ = span(spans, b, j, N, spans_step, KEYS, SPANS, -2)
                    logits = tl.where(first[:, None] == theirs_first[None, :], logits, float("-inf"))
                elif part:
                    logits = tl.where((j < N)[None, :], logits, float("-inf"))
                highest = tl.maximum(most, tl.max(logits, 1))
                weights = tl.exp2(logits - highest[:, None])
                shrunk = tl.exp2(most - highest)
                total = total * shrunk + tl.sum(weights, 1)
                vs = rows(v, j, v_step[2], d, N, WIDTH, D, part == 0)
                sums = tl.dot(weights.to(vs.dtype), vs, sums * shrunk[:, None], input_precision=PRECISION)
                most = highest
    seen = total > 0  # not by padding
    total = tl.where(seen, total, 1.0)
    at = b * out_step[0] + h * out_step[1] + i[:, None] * out_step[2] + d[None, :]
    within = (i < N)[:, None] & (d < WIDTH)[None, :]
    sums /= total[:, None]
    rounded = sums.to(out.dtype.element_ty)
    tl.store(out + at, rounded, mask=within)
    if rest is not None:
        tl.store(rest + at, (sums - rounded.to(tl.float32)).to(rest.dtype.element_ty), mask=within)
    logarithm = tl.where(seen, (most + tl.log2(total)) / LOG2E, float("-inf"))
    tl.store(lse + (b * H + h) * N + i, logarithm, mask=i < N)


@triton.jit
def backward_queries(
    q, k, v, forms, places, placed, spans, boxes, out, rest, lse, d_out, d_lse, said, dq, d_forms,
    q_step, k_step, v_step, out_step, d_out_step, dq_step,
    forms_step, places_step, placed_step, spans_step, boxes_step,
    H, N, scale,
    KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr, SPANS: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of queries and of their forms. What the keys want to know of each query is `said`, (B, H,
    2 + F, N): what the softmax takes from the gradient of a logit, the logarithm of its sum, and the prepared form."""
    tile, b, h = which(H, tl.cdiv(N, QUERIES))
    i, d = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, D)
    qs = rows(q + b * q_step[0] + h * q_step[1], i, q_step[2], d, N, WIDTH, D, False)
    outs = rows(out + b * out_step[0] + h * out_step[1], i, out_step[2], d, N, WIDTH, D, False).to(tl.float32)
    if rest is not None:
        outs += rows(rest + b * out_step[0] + h * out_step[1], i, out_step[2], d, N, WIDTH, D, False).to(tl.float32)
    d_outs = rows(d_out + b * d_out_step[0] + h * d_out_step[1], i, d_out_step[2], d, N, WIDTH, D, False)
    k += b * k_step[0] + h * k_step[1]
    v += b * v_step[0] + h * v_step[1]
    row = (b * H + h) * N + i
    taken = tl.sum(outs * d_outs.to(tl.float32), 1) - tl.load(d_lse + row, mask=i < N, other=0.0)
    logarithm = tl.load(lse + row, mask=i < N, other=float("-inf"))
    logarithm = tl.where(logarithm > float("-inf"), logarithm * LOG2E, float("inf"))  # no weights: padding
    here = placed_of(placed, b, i, N, placed_step, UNPLACED, 0, False)
    own = places_of(places, b, i, N, places_step, P, 0, False)
    cone = forms_of(forms, b, h, i, N, forms_step, COUNT, KIND)
    form = prepared(cone, here, KIND, P, COUNT, UNPLACED)
    said += (b * H + h) * (2 + COUNT) * N + i
    tl.store(said + N, logarithm, mask=i < N)
    for f in tl.static_range(COUNT):
        tl.store(said[:, None] + (2 + f) * N, form[f], mask=(i < N)[:, None])
    box = box_of(own, placed, b, i, N, placed_step, KIND, P, UNPLACED)
    first, low, high = span(spans, b, i, N, spans_step, KEYS, SPANS, -1)
    sums = tl.zeros([QUERIES, D], tl.float32)
    f = tl.arange(0, triton.next_power_of_2(COUNT + 1))
    slopes = tl.zeros([QUERIES, f.shape[0]], tl.float32)
    whole = N // KEYS * KEYS
    for part in tl.static_range(1 if SPANS else 0, 2):
        for start in range(low if part == SPANS else whole, high if part else whole, KEYS):
            look = True
            if KIND == "cone":
                look = meets(cone, box, box_at(boxes, b, start // KEYS, boxes_step, P), P)
            if look:
                j = start + tl.arange(0, KEYS)
                ks = rows(k, j, k_step[2], d, N, WIDTH, D, part == 0)
                logits = tl.dot(qs, tl.trans(ks), input_precision=PRECISION) * (scale * LOG2E)
                there = placed_of(placed, b, j, N, placed_step, UNPLACED, 1, part == 0)
                theirs = places_of(places, b, j, N, places_step, P, 1, part == 0)
                dr = differences(own, theirs, there, P, UNPLACED)
                weights = tl.exp2(biased(logits - logarithm[:, None], form, dr, here, KIND, P, UNPLACED))
                if SPANS:
                    theirs_first, _, _ = span(spans, b, j, N, spans_step, KEYS, SPANS, -2)
                    weights = tl.where(first[:, None] == theirs_first[None, :], weights, 0.0)
                elif part:
                    weights = tl.where((j < N)[None, :], weights, 0.0)
                vs = rows(v, j, v_step[2], d, N, WIDTH, D, part == 0)
                d_weights = tl.dot(d_outs, tl.trans(vs), input_precision=PRECISION)
                d_logits = weights * (d_weights - taken[:, None])
                slopes = summed(slopes, d_logits, form, dr, here, KIND, P, UNPLACED)
                sums = tl.dot(d_logits.to(ks.dtype), ks, sums, input_precision=PRECISION)
    tl.store(said, taken, mask=i < N)
    at = dq + b * dq_step[0] + h * dq_step[1] + i[:, None] * dq_step[2] + d[None, :]
    within = (i < N)[:, None] & (d < WIDTH)[None, :]
    tl.store(at, (sums * scale).to(dq.dtype.element_ty), mask=within)
    if KIND != "cone" and COUNT > 0:
        if UNPLACED:
            slopes *= row_of(placed + b * placed_step, i, N, False)[:, None]
        at = d_forms + ((b * H + h) * COUNT + f[None, :]) * N + i[:, None]
        tl.store(at, slopes, mask=(f < COUNT)[None, :] & (i < N)[:, None])


@triton.jit
def backward_keys(
    q, k, v, forms, places, placed, spans, boxes, d_out, said, dk, dv,
    q_step, k_step, v_step, d_out_step, dk_step,
    forms_step, places_step, placed_step, spans_step, boxes_step,
    H, N, scale,
    KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr, SPANS: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of keys and values, over all queries in their spans; tiles are keys by queries."""
    tile, b, h = which(H, tl.cdiv(N, KEYS))
    j, d = tile * KEYS + tl.arange(0, KEYS), tl.arange(0, D)
    ks = rows(k + b * k_step[0] + h * k_step[1], j, k_step[2], d, N, WIDTH, D, False)
    vs = rows(v + b * v_step[0] + h * v_step[1], j, v_step[2], d, N, WIDTH, D, False)
    q += b * q_step[0] + h * q_step[1]
    d_out += b * d_out_step[0] + h * d_out_step[1]
    said += (b * H + h) * (2 + COUNT) * N
    there = placed_of(placed, b, j, N, placed_step, UNPLACED, 0, False)
    theirs = places_of(places, b, j, N, places_step, P, 0, False)
    box = box_of(theirs, placed, b, j, N, placed_step, KIND, P, UNPLACED)
    cone = forms_of(forms, b, h, j, N, forms_step, COUNT if KIND == "cone" else 0, KIND)
    first, low, high = span(spans, b, j, N, spans_step, QUERIES, SPANS, -2)
    d_keys = tl.zeros([KEYS, D], tl.float32)
    d_values = tl.zeros([KEYS, D], tl.float32)
    whole = N // QUERIES * QUERIES
    for part in tl.static_range(1 if SPANS else 0, 2):  # whole tiles without a mask, then the others
        for start in range(low if part == SPANS else whole, high if part else whole, QUERIES):
            look = True
            if KIND == "cone":
                look = meets(cone, box_at(boxes, b, start // QUERIES, boxes_step, P), box, P)
            if look:
                i = start + tl.arange(0, QUERIES)
                qs = rows(q, i, q_step[2], d, N, WIDTH, D, part == 0)
                logits = tl.dot(ks, tl.trans(qs), input_precision=PRECISION) * (scale * LOG2E)
                here = placed_of(placed, b, i, N, placed_step, UNPLACED, 1, part == 0)
                own = places_of(places, b, i, N, places_step, P, 1, part == 0)
                form = said_of(said + 2 * N, i, N, COUNT, part == 0)
                logits -= row_of(said + N, i, N, part == 0)[None, :]
                dr = differences(own, theirs, there, P, UNPLACED)
                weights = tl.exp2(biased(logits, form, dr, here, KIND, P, UNPLACED))
                if SPANS:
                    theirs_first, _, _ = span(spans, b, i, N, spans_step, QUERIES, SPANS, -1)
                    weights = tl.where(first[:, None] == theirs_first[None, :], weights, 0.0)
                d_outs = rows(d_out, i, d_out_step[2], d, N, WIDTH, D, part == 0)
                d_values = tl.dot(weights.to(d_outs.dtype), d_outs, d_values, input_precision=PRECISION)
                d_weights = tl.dot(vs, tl.trans(d_outs), input_precision=PRECISION)
                d_logits = weights * (d_weights - row_of(said, i, N, part == 0)[None, :])
                d_keys = tl.dot(d_logits.to(qs.dtype), qs, d_keys, input_precision=PRECISION)
    base = b * dk_step[0] + h * dk_step[1] + j[:, None] * dk_step[2] + d[None, :]
    within = (j < N)[:, None] & (d < WIDTH)[None, :]
    tl.store(dk + base, (d_keys * scale).to(dk.dtype.element_ty), mask=within)
    tl.store(dv + base, d_values.to(dv.dtype.element_ty), mask=within)
