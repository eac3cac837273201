"""Building blocks of the fused kernels: loads, position differences, the bias and gradients of its forms (Triton).

Tiles are queries by keys or keys by queries. One number per token along AXIS has shape (n, 1) or (1, n), and broadcasts
over the other axis. KIND is the kind of bias and `form` its coefficients for a query; fused_op.py lists both.
"""

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def program_index(H, tiles):
    """Return the tile, row and head of this program; tiles of a head are neighbors, so its keys stay in the cache."""
    at = tl.program_id(0) // tiles
    return tl.program_id(0) % tiles, (at // H).to(tl.int64), (at % H).to(tl.int64)


@triton.jit
def rows(base, n, step, d, N, WIDTH: tl.constexpr, D: tl.constexpr, ALL: tl.constexpr):
    """Load n rows of a matrix as (n, D), with 0 beyond its WIDTH, and beyond N unless ALL rows are inside."""
    at = base + n[:, None] * step + d[None, :]
    if ALL:
        if WIDTH == D:
            return tl.load(at)
        else:
            return tl.load(at, mask=(d < WIDTH)[None, :], other=0.0)
    else:
        return tl.load(at, mask=(n < N)[:, None] & (d < WIDTH)[None, :], other=0.0)


@triton.jit
def load_row(base, n, N, ALL: tl.constexpr):
    """Load one number for each of n tokens, with 0 beyond N unless ALL tokens are inside."""
    if ALL:
        return tl.load(base + n)
    else:
        return tl.load(base + n, mask=n < N, other=0.0)


@triton.jit
def load_forms(forms, b, h, n, N, step, COUNT: tl.constexpr):
    """Load COUNT tiles (n, 1) of the forms (B, H, F, N)."""
    result = ()
    for f in tl.static_range(COUNT):
        at = forms + b * step[0] + h * step[1] + f * step[2]
        result = result + (tl.load(at + n * step[3], mask=n < N, other=1.0)[:, None],)
    return result


@triton.jit
def load_query_stats(query_stats, n, N, COUNT: tl.constexpr, ALL: tl.constexpr):
    """Load COUNT tiles (1, n) from a table (COUNT, N)."""
    result = ()
    for f in tl.static_range(COUNT):
        result = result + (load_row(query_stats + f * N, n, N, ALL)[None, :],)
    return result


@triton.jit
def load_positions(places, b, n, N, step, P: tl.constexpr, AXIS: tl.constexpr, ALL: tl.constexpr):
    """Load P tiles of positions, from `places` (B or 1, P, N)."""
    result = ()
    for a in tl.static_range(P):
        result = result + (tl.expand_dims(load_row(places + b * step[0] + a * step[1], n, N, ALL), 1 - AXIS),)
    return result


@triton.jit
def load_placed(placed, b, n, N, step, UNPLACED: tl.constexpr, AXIS: tl.constexpr, ALL: tl.constexpr):
    """Load a tile that is 1.0 where a token has a position and 0.0 elsewhere."""
    if UNPLACED:
        return tl.expand_dims(load_row(placed + b * step, n, N, ALL), 1 - AXIS)
    else:
        return 1.0


@triton.jit
def prepare_forms(form, query_placed, KIND: tl.constexpr, P: tl.constexpr, COUNT: tl.constexpr, UNPLACED: tl.constexpr):
    """Return the forms as `add_bias` takes them: parabolas and slopes in powers of two, off-diagonal entries of M
    doubled, widths inverted, and 0 for queries without a position."""
    result = ()
    if KIND == "parabola":
        for a in tl.static_range(P):
            for b in tl.static_range(a, P):
                result = result + (form[a * P - a * (a - 1) // 2 + b - a] * (LOG2E * (1.0 if a == b else 2.0)),)
        for a in tl.static_range(P):
            result = result + (form[P * (P + 1) // 2 + a] * LOG2E,)
    elif KIND == "isotropic" or KIND == "distance":
        result = result + (form[0] * LOG2E,)
    elif KIND == "gaussian":
        result = result + (1.0 / form[0],)
    else:
        result = form
    if UNPLACED and (KIND == "parabola" or KIND == "isotropic"):
        masked = ()
        for f in tl.static_range(COUNT):
            masked = masked + (result[f] * query_placed,)
        result = masked
    return result


@triton.jit
def differences(query_positions, key_positions, key_placed, P: tl.constexpr, UNPLACED: tl.constexpr):
    """Return r_j - w_j r_i for each axis: keys less queries."""
    dr = ()
    for a in tl.static_range(P):
        if UNPLACED:
            dr = dr + (key_positions[a] - key_placed * query_positions[a],)
        else:
            dr = dr + (key_positions[a] - query_positions[a],)
    return dr


@triton.jit
def square(dr, P: tl.constexpr):
    """Return |dr|^2."""
    d = dr[0] * dr[0]
    for a in tl.static_range(1, P):
        d += dr[a] * dr[a]
    return d


@triton.jit
def norm(dr, query_placed, P: tl.constexpr, UNPLACED: tl.constexpr):
    if P == 1:
        d = tl.abs(dr[0])
    else:
        d = tl.sqrt(square(dr, P))
    if UNPLACED:
        d *= query_placed
    return d


@triton.jit
def add_bias(logits, form, dr, query_placed, KIND: tl.constexpr, P: tl.constexpr, UNPLACED: tl.constexpr):
    """Return the logits, in powers of two, plus their bias."""
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
        logits -= form[0] * norm(dr, query_placed, P, UNPLACED)
    elif KIND == "power":
        d = norm(dr, query_placed, P, UNPLACED)
        logits -= LOG2E * form[0] * tl.where(d > 0, tl.exp2(form[1] * tl.log2(d)), 0.0)
    elif KIND == "logarithm":
        logits -= form[1] * tl.log2(1.0 + form[0] * norm(dr, query_placed, P, UNPLACED))
    elif KIND == "gaussian":
        share = norm(dr, query_placed, P, UNPLACED) * form[0]
        logits -= (0.5 * LOG2E) * share * share
    return logits


@triton.jit
def add_form_gradients(
    sums, d_logits, form, dr, query_placed, KIND: tl.constexpr, P: tl.constexpr, UNPLACED: tl.constexpr
):
    """Add a tile's share of the forms' gradients to `sums`, (queries, F or more) in float32."""
    if KIND == "parabola":
        for a in tl.static_range(P):
            part = d_logits * dr[a]
            sums = add_to_column(sums, P * (P + 1) // 2 + a, tl.sum(part, 1))
            for b in tl.static_range(a, P):
                more = tl.sum(part * dr[b], 1) * (1.0 if a == b else 2.0)
                sums = add_to_column(sums, a * P - a * (a - 1) // 2 + b - a, more)
    elif KIND == "isotropic":
        sums = add_to_column(sums, 0, tl.sum(d_logits * square(dr, P), 1))
    elif KIND == "distance":
        sums = add_to_column(sums, 0, -tl.sum(d_logits * norm(dr, query_placed, P, UNPLACED), 1))
    elif KIND == "power":
        d = norm(dr, query_placed, P, UNPLACED)
        part = tl.where(d > 0, d_logits * tl.exp2(form[1] * tl.log2(d)), 0.0)
        log = tl.log2(tl.where(d > 0, d, 1.0)) / LOG2E
        sums = add_to_column(sums, 0, -tl.sum(part, 1))
        sums = add_to_column(sums, 1, -tl.sum(part * form[0] * log, 1))
    elif KIND == "logarithm":
        d = norm(dr, query_placed, P, UNPLACED)
        more = 1.0 + form[0] * d
        sums = add_to_column(sums, 0, -tl.sum(d_logits * form[1] * d / more, 1))
        sums = add_to_column(sums, 1, -tl.sum(d_logits * tl.log2(more), 1) / LOG2E)
    elif KIND == "gaussian":
        d = norm(dr, query_placed, P, UNPLACED)
        sums = add_to_column(sums, 0, tl.sum(d_logits * d * d * (form[0] * form[0] * form[0]), 1))
    return sums


@triton.jit
def add_to_column(sums, f: tl.constexpr, more):
    """Add (queries,) numbers to column f of (queries, F or more). One tile holds all columns because F separate rows
    would each take registers in all threads that share a query."""
    return tl.where(tl.arange(0, sums.shape[1])[None, :] == f, sums + more[:, None], sums)


@triton.jit
def span(spans, b, n, N, step, TILE: tl.constexpr, SPANS: tl.constexpr, NEVER: tl.constexpr):
    """Return where the spans of n tokens begin (NEVER for padding), and the range of tokens that they cover together,
    from the start of a tile."""
    if SPANS:
        first = tl.load(spans + b * step + n, mask=n < N, other=-1)
        last = tl.load(spans + b * step + N + n, mask=n < N, other=0)
        low = tl.min(tl.where(first < 0, N, first))
        return tl.where(first < 0, NEVER, first), low // TILE * TILE, tl.max(last)
    else:
        return n, 0, N
