"""The fused kernels: flash attention that computes its bias from positions and from numbers of each query (Triton).

Differences of positions are computed in float32 before they are squared, so a large extent costs no digits. A key
without a position is stored at 0 with w_j = 0: then dr = r_j - w_j r_i is 0, and so is its bias. Logits are in powers
of two. Each program writes other rows of the results, without atomics: results are the same bits each time.

Steps are strides in elements: over (B, H, N) for q, k, v and the like, over (B, H, F, N) for forms, over B for others.
"""

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from ndformer.framework.kernels.fused_tiles import (
    LOG2E,
    add_bias,
    add_form_gradients,
    differences,
    load_forms,
    load_placed,
    load_positions,
    load_query_stats,
    load_row,
    prepare_forms,
    program_index,
    rows,
    span,
)


@triton.jit
def forward(
    q, k, v, forms, places, placed, spans, out, lse, residual,
    q_step, k_step, v_step, out_step, forms_step, places_step, placed_step, spans_step,
    H, N, scale,
    KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr, SPANS: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Compute the output and log-sum-exp of a tile of queries over the keys in their spans.

    `residual` is None or receives what rounding to 16 bits takes from `out`."""
    tile, b, h = program_index(H, tl.cdiv(N, QUERIES))
    i, d = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, D)
    qs = rows(q + b * q_step[0] + h * q_step[1], i, q_step[2], d, N, WIDTH, D, False)
    k += b * k_step[0] + h * k_step[1]
    v += b * v_step[0] + h * v_step[1]
    query_placed = load_placed(placed, b, i, N, placed_step, UNPLACED, 0, False)
    query_positions = load_positions(places, b, i, N, places_step, P, 0, False)
    form = load_forms(forms, b, h, i, N, forms_step, COUNT)
    form = prepare_forms(form, query_placed, KIND, P, COUNT, UNPLACED)
    first, low, high = span(spans, b, i, N, spans_step, KEYS, SPANS, -1)
    row_max = tl.full([QUERIES], -1e30, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, D], tl.float32)
    unmasked_end = N // KEYS * KEYS
    for part in tl.static_range(1 if SPANS else 0, 2):  # full tiles without a mask, then the others
        for start in range(low if part == SPANS else unmasked_end, high if part else unmasked_end, KEYS):
            j = start + tl.arange(0, KEYS)
            ks = rows(k, j, k_step[2], d, N, WIDTH, D, part == 0)
            key_placed = load_placed(placed, b, j, N, placed_step, UNPLACED, 1, part == 0)
            logits = tl.dot(qs, tl.trans(ks), input_precision=PRECISION) * (scale * LOG2E)
            key_positions = load_positions(places, b, j, N, places_step, P, 1, part == 0)
            dr = differences(query_positions, key_positions, key_placed, P, UNPLACED)
            logits = add_bias(logits, form, dr, query_placed, KIND, P, UNPLACED)
            if SPANS:
                key_first, _, _ = span(spans, b, j, N, spans_step, KEYS, SPANS, -2)
                logits = tl.where(first[:, None] == key_first[None, :], logits, float("-inf"))
            elif part:
                logits = tl.where((j < N)[None, :], logits, float("-inf"))
            new_max = tl.maximum(row_max, tl.max(logits, 1))
            weights = tl.exp2(logits - new_max[:, None])
            rescale = tl.exp2(row_max - new_max)
            total = total * rescale + tl.sum(weights, 1)
            vs = rows(v, j, v_step[2], d, N, WIDTH, D, part == 0)
            sums = tl.dot(weights.to(vs.dtype), vs, sums * rescale[:, None], input_precision=PRECISION)
            row_max = new_max
    has_keys = total > 0  # not by padding
    total = tl.where(has_keys, total, 1.0)
    at = b * out_step[0] + h * out_step[1] + i[:, None] * out_step[2] + d[None, :]
    within = (i < N)[:, None] & (d < WIDTH)[None, :]
    sums /= total[:, None]
    rounded = sums.to(out.dtype.element_ty)
    tl.store(out + at, rounded, mask=within)
    if residual is not None:
        tl.store(residual + at, (sums - rounded.to(tl.float32)).to(residual.dtype.element_ty), mask=within)
    logarithm = tl.where(has_keys, (row_max + tl.log2(total)) / LOG2E, float("-inf"))
    tl.store(lse + (b * H + h) * N + i, logarithm, mask=i < N)


@triton.jit
def backward_queries(
    q, k, v, forms, places, placed, spans, out, residual, lse, d_out, d_lse, query_stats, dq, d_forms,
    q_step, k_step, v_step, out_step, d_out_step, dq_step,
    forms_step, places_step, placed_step, spans_step,
    H, N, scale,
    KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr, SPANS: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a tile of queries and of their forms.

    For `backward_keys` it writes `query_stats` (B, H, 2 + F, N): delta, the sum of out * d_out over channels,
    less d_lse; the log-sum-exp in powers of two; and the forms as `prepare_forms` returns them."""
    tile, b, h = program_index(H, tl.cdiv(N, QUERIES))
    i, d = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, D)
    qs = rows(q + b * q_step[0] + h * q_step[1], i, q_step[2], d, N, WIDTH, D, False)
    outs = rows(out + b * out_step[0] + h * out_step[1], i, out_step[2], d, N, WIDTH, D, False).to(tl.float32)
    if residual is not None:
        outs += rows(residual + b * out_step[0] + h * out_step[1], i, out_step[2], d, N, WIDTH, D, False).to(tl.float32)
    d_outs = rows(d_out + b * d_out_step[0] + h * d_out_step[1], i, d_out_step[2], d, N, WIDTH, D, False)
    k += b * k_step[0] + h * k_step[1]
    v += b * v_step[0] + h * v_step[1]
    row = (b * H + h) * N + i
    delta = tl.sum(outs * d_outs.to(tl.float32), 1) - tl.load(d_lse + row, mask=i < N, other=0.0)
    logarithm = tl.load(lse + row, mask=i < N, other=float("-inf"))
    logarithm = tl.where(logarithm > float("-inf"), logarithm * LOG2E, float("inf"))  # no weights: padding
    query_placed = load_placed(placed, b, i, N, placed_step, UNPLACED, 0, False)
    query_positions = load_positions(places, b, i, N, places_step, P, 0, False)
    form = load_forms(forms, b, h, i, N, forms_step, COUNT)
    form = prepare_forms(form, query_placed, KIND, P, COUNT, UNPLACED)
    query_stats += (b * H + h) * (2 + COUNT) * N + i
    tl.store(query_stats + N, logarithm, mask=i < N)
    for f in tl.static_range(COUNT):
        tl.store(query_stats[:, None] + (2 + f) * N, form[f], mask=(i < N)[:, None])
    first, low, high = span(spans, b, i, N, spans_step, KEYS, SPANS, -1)
    sums = tl.zeros([QUERIES, D], tl.float32)
    f = tl.arange(0, triton.next_power_of_2(COUNT + 1))
    slopes = tl.zeros([QUERIES, f.shape[0]], tl.float32)
    unmasked_end = N // KEYS * KEYS
    for part in tl.static_range(1 if SPANS else 0, 2):
        for start in range(low if part == SPANS else unmasked_end, high if part else unmasked_end, KEYS):
            j = start + tl.arange(0, KEYS)
            ks = rows(k, j, k_step[2], d, N, WIDTH, D, part == 0)
            logits = tl.dot(qs, tl.trans(ks), input_precision=PRECISION) * (scale * LOG2E)
            key_placed = load_placed(placed, b, j, N, placed_step, UNPLACED, 1, part == 0)
            key_positions = load_positions(places, b, j, N, places_step, P, 1, part == 0)
            dr = differences(query_positions, key_positions, key_placed, P, UNPLACED)
            weights = tl.exp2(add_bias(logits - logarithm[:, None], form, dr, query_placed, KIND, P, UNPLACED))
            if SPANS:
                key_first, _, _ = span(spans, b, j, N, spans_step, KEYS, SPANS, -2)
                weights = tl.where(first[:, None] == key_first[None, :], weights, 0.0)
            elif part:
                weights = tl.where((j < N)[None, :], weights, 0.0)
            vs = rows(v, j, v_step[2], d, N, WIDTH, D, part == 0)
            d_weights = tl.dot(d_outs, tl.trans(vs), input_precision=PRECISION)
            d_logits = weights * (d_weights - delta[:, None])
            slopes = add_form_gradients(slopes, d_logits, form, dr, query_placed, KIND, P, UNPLACED)
            sums = tl.dot(d_logits.to(ks.dtype), ks, sums, input_precision=PRECISION)
    tl.store(query_stats, delta, mask=i < N)
    at = dq + b * dq_step[0] + h * dq_step[1] + i[:, None] * dq_step[2] + d[None, :]
    within = (i < N)[:, None] & (d < WIDTH)[None, :]
    tl.store(at, (sums * scale).to(dq.dtype.element_ty), mask=within)
    if COUNT > 0:
        if UNPLACED:
            slopes *= load_row(placed + b * placed_step, i, N, False)[:, None]
        at = d_forms + ((b * H + h) * COUNT + f[None, :]) * N + i[:, None]
        tl.store(at, slopes, mask=(f < COUNT)[None, :] & (i < N)[:, None])


@triton.jit
def backward_keys(
    q, k, v, forms, places, placed, spans, d_out, query_stats, dk, dv,
    q_step, k_step, v_step, d_out_step, dk_step,
    forms_step, places_step, placed_step, spans_step,
    H, N, scale,
    KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr, SPANS: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a tile of keys and values over the queries in their spans; tiles are keys by queries."""
    tile, b, h = program_index(H, tl.cdiv(N, KEYS))
    j, d = tile * KEYS + tl.arange(0, KEYS), tl.arange(0, D)
    ks = rows(k + b * k_step[0] + h * k_step[1], j, k_step[2], d, N, WIDTH, D, False)
    vs = rows(v + b * v_step[0] + h * v_step[1], j, v_step[2], d, N, WIDTH, D, False)
    q += b * q_step[0] + h * q_step[1]
    d_out += b * d_out_step[0] + h * d_out_step[1]
    query_stats += (b * H + h) * (2 + COUNT) * N
    key_placed = load_placed(placed, b, j, N, placed_step, UNPLACED, 0, False)
    key_positions = load_positions(places, b, j, N, places_step, P, 0, False)
    first, low, high = span(spans, b, j, N, spans_step, QUERIES, SPANS, -2)
    d_keys = tl.zeros([KEYS, D], tl.float32)
    d_values = tl.zeros([KEYS, D], tl.float32)
    unmasked_end = N // QUERIES * QUERIES
    for part in tl.static_range(1 if SPANS else 0, 2):  # full tiles without a mask, then the others
        for start in range(low if part == SPANS else unmasked_end, high if part else unmasked_end, QUERIES):
            i = start + tl.arange(0, QUERIES)
            qs = rows(q, i, q_step[2], d, N, WIDTH, D, part == 0)
            logits = tl.dot(ks, tl.trans(qs), input_precision=PRECISION) * (scale * LOG2E)
            query_placed = load_placed(placed, b, i, N, placed_step, UNPLACED, 1, part == 0)
            query_positions = load_positions(places, b, i, N, places_step, P, 1, part == 0)
            form = load_query_stats(query_stats + 2 * N, i, N, COUNT, part == 0)
            logits -= load_row(query_stats + N, i, N, part == 0)[None, :]
            dr = differences(query_positions, key_positions, key_placed, P, UNPLACED)
            weights = tl.exp2(add_bias(logits, form, dr, query_placed, KIND, P, UNPLACED))
            if SPANS:
                query_first, _, _ = span(spans, b, i, N, spans_step, QUERIES, SPANS, -1)
                weights = tl.where(first[:, None] == query_first[None, :], weights, 0.0)
            d_outs = rows(d_out, i, d_out_step[2], d, N, WIDTH, D, part == 0)
            d_values = tl.dot(weights.to(d_outs.dtype), d_outs, d_values, input_precision=PRECISION)
            d_weights = tl.dot(vs, tl.trans(d_outs), input_precision=PRECISION)
            d_logits = weights * (d_weights - load_row(query_stats, i, N, part == 0)[None, :])
            d_keys = tl.dot(d_logits.to(qs.dtype), qs, d_keys, input_precision=PRECISION)
    base = b * dk_step[0] + h * dk_step[1] + j[:, None] * dk_step[2] + d[None, :]
    within = (j < N)[:, None] & (d < WIDTH)[None, :]
    tl.store(dk + base, (d_keys * scale).to(dk.dtype.element_ty), mask=within)
    tl.store(dv + base, d_values.to(dv.dtype.element_ty), mask=within)
