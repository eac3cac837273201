"""Pictures of how an untrained position encoding changes attention, for some queries and all keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.pictures.figures import Panels, curves, heat_maps
from ndformer.framework.tokens import Where

Options = dict[str, Any]

SIZES = {1: (65,), 2: (17, 17), 3: (9, 9, 9)}  # odd, so that there is a middle
HEAD_DIM, DEPTH = 64, 12
CAMERA_TURN = 60  # degrees between the two cameras
NAMES: dict[str, Any] = {  # measured quantity: arguments of Panels
    "similarity": dict(name="cosine similarity of the embeddings", kind="level"),
    "influence": dict(name="change of the query if the key were 0", kind="share"),
    "logit": dict(name="logit of equal queries and keys", kind="level"),
    "bias": dict(name="bias", kind="signed", limit=10.0),  # attention at a bias of -10 is almost 0
    "attention": dict(name="attention", kind="share"),
    "value": dict(name="cosine of a value at its key and at the query", kind="level"),
}


@dataclass
class Measured:
    """Quantities (Q, heads, N) of an untrained encoding for some queries."""

    values: dict[str, Tensor]
    content_dependent: bool  # tokens change them
    randomized: Sequence[str] = ()  # names of weights with random values in place of their initial 0
    uses_cameras: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether nothing depends on positions: there is no bias, or it is 0 for all keys that are seen."""
        bias = self.values.get("bias")
        return set(self.values) <= {"bias", "attention"} and (bias is None or not bias[bias.isfinite()].any())


def measure(cfg: dict[str, Any], where: Where, heads: int, queries: Tensor) -> Measured:
    """Measure an encoding with its initial weights; if nothing is to be seen, with random values for weights of 0."""
    initial = _measure(cfg, where, heads, queries, draw_zeros=False)
    return _measure(cfg, where, heads, queries, draw_zeros=True) if initial.is_blank else initial


@torch.no_grad()
def _measure(cfg: dict[str, Any], where: Where, heads: int, queries: Tensor, draw_zeros: bool) -> Measured:
    torch.manual_seed(0)
    dim, N, dims = heads * HEAD_DIM, *where.positions.shape[1:]
    encoding = build_encoding(cfg, dim=dim, heads=heads, position_dims=dims, depth=DEPTH)
    layer = encoding.layer(0, DEPTH)
    randomized = [name for name, weight in layer.named_parameters() if draw_zeros and not weight.any()]
    for name in randomized:
        nn.init.normal_(layer.get_parameter(name))
    state = encoding.prepare(where)
    random = torch.randn(1, N, dim, generator=torch.Generator().manual_seed(0))
    x = F.layer_norm(random, [dim])  # tokens as attention layers get them
    split = x.unflatten(-1, (heads, HEAD_DIM)).transpose(1, 2)  # (1, H, N, h)
    same = torch.ones_like(split)
    values: dict[str, Tensor] = {}

    inputs = layer.input(encoding.embed(torch.zeros_like(x), state), state)
    added = layer.qk_input(inputs, state)[0]
    if added.any():
        unit = F.normalize(added, dim=-1)
        values["similarity"] = (unit[queries] @ unit.T)[:, None].expand(-1, heads, -1)

    if encoding.has_block_update:
        values["influence"] = _influence(encoding, x, state, queries)[:, None].expand(-1, heads, -1)

    logits = torch.zeros(len(queries), heads, N)
    q, k = layer.qk(same, same, x, state)
    if not (torch.equal(q, same) and torch.equal(k, same)):
        values["logit"] = (q[0, :, queries] @ k[0].mT * HEAD_DIM**-0.5).transpose(0, 1)
        logits = logits + values["logit"]
    _, _, bias = layer(split, split, x, state)
    if bias is not None:
        rows = [bias.rows(i, i + 1)[0, :, 0].expand(heads, -1) for i in queries.tolist()]
        values["bias"] = torch.stack(rows)
        logits = logits + values["bias"]
    if not values or set(values) - {"similarity", "influence"}:
        values["attention"] = logits.softmax(-1)
    if layer.transforms_values:
        v = layer.values(same, x, state)
        received = [layer.output(v[:, :, [key]].expand_as(v), x, state)[0, :, queries] for key in range(N)]
        values["value"] = F.cosine_similarity(torch.stack(received), same[0, 0, 0], dim=-1).permute(2, 1, 0)
    return Measured(values, encoding.content_dependent, randomized, encoding.uses_cameras)


def _influence(encoding: PositionEncoding, x: Tensor, state: Any, queries: Tensor) -> Tensor:
    """Return (Q, N), the norm of the change of block_update() at each query if the token of a key is set to 0."""

    def added(x: Tensor) -> Tensor:
        first, second = (encoding.block_update(x, state, passed) - x for passed in (0, 1))
        return (first + second)[:, queries]

    without_key = [x.index_fill(1, key, 0.0) for key in torch.arange(x.shape[1])]
    return torch.stack([(added(tokens) - added(x)).norm(dim=2)[0] for tokens in without_key], dim=1)


@dataclass
class View:
    """A row of the picture: a query and its keys."""

    name: str
    query: int
    keys: Tensor  # (length,) or (height, width) indices of tokens
    mark: tuple[float, float] = (0, 0)  # (y, x) of the query among the keys


def views(dims: int) -> list[View]:
    """Return some queries with all keys in 1-D and 2-D, or the planes through one query in 3-D."""
    tokens = torch.arange(int(np.prod(SIZES[dims]))).view(SIZES[dims])
    if dims == 1:
        return [View(f"query at {i}", i, tokens) for i in (32, 8)]
    if dims == 2:
        places = {"query in\nthe middle": (8, 8), "aside": (5, 12), "in the corner": (0, 0)}
        return [View(name, int(tokens[y, x]), tokens, (y, x)) for name, (y, x) in places.items()]
    middle = 4
    query = int(tokens[middle, middle, middle])
    planes = [(f"axis {a} down,\n{b} right", tokens.select(c, middle)) for a, b, c in ((1, 2, 0), (0, 2, 1), (0, 1, 2))]
    return [View(name, query, plane, (middle, middle)) for name, plane in planes]


def two_cameras(second: Tensor) -> Tensor:
    """Return a camera (..., 4, 4) per token: the identity, and for `second` ones a turn about the vertical axis."""
    turn = torch.tensor(CAMERA_TURN).deg2rad()
    turned = torch.eye(4)
    turned[0, 0] = turned[2, 2] = turn.cos()
    turned[0, 2], turned[2, 0] = turn.sin(), -turn.sin()
    return torch.where(second[..., None, None], turned, torch.eye(4))


def draw(kind: type[PositionEncoding], options: Options, compare: Sequence[Options], dims: int, heads: int) -> Any:
    """Draw a column per head, or to `compare` head 1 with each of these options in addition to `options`."""
    axes = [torch.arange(float(n)) for n in SIZES[dims]]
    positions = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)[None]  # (1, N, P)
    share = positions / torch.tensor(SIZES[dims])
    first, other_axes = share[..., 0], share[..., 1:]
    inside = (first > 0.1) & (first < 0.45) & (other_axes > 0.5).all(-1) & (other_axes < 0.9).all(-1)
    where = Where(  # with objects and cameras for encodings that use them
        positions, grid=SIZES[dims], objects=5 * inside.long(), cameras=two_cameras(share[..., -1] > 0.5)
    )
    rows = views(dims)
    queries = torch.tensor([row.query for row in rows])
    title = f"{kind.__name__}{_format_options(options)}, {dims}-D, untrained"
    if compare:
        each = [measure(dict(type=kind, **{**options, **more}), where, heads, queries) for more in compare]
        by_name = {name: torch.cat([option.values[name][:, :1] for option in each], dim=1) for name in each[0].values}
        columns = ["\n".join(f"{key}={value}" for key, value in more.items()) for more in compare]
        title += ", head 1"
    else:
        each = [measure(dict(type=kind, **options), where, heads, queries)]
        by_name = each[0].values
        columns = [f"head {h + 1}" for h in range(heads)]
        if all(torch.equal(values, values[:, :1].expand_as(values)) for values in by_name.values()):
            by_name = {name: values[:, :1] for name, values in by_name.items()}
            columns = ["all heads"]
    randomized = list(dict.fromkeys(name for option in each for name in option.randomized))
    if randomized:
        title += f" (starts at 0, drawn at random: {', '.join(randomized)})"
    if any(option.uses_cameras for option in each):
        title += f" (far half of the last axis: a camera turned by {CAMERA_TURN}°)"
    blocks = []
    for name, values in by_name.items():  # (Q, columns, N) -> (Q, columns, *keys.shape)
        selected = torch.stack([value[:, row.keys] for value, row in zip(values, rows)])
        blocks.append(Panels(values=selected.numpy(), **NAMES[name]))
    names = [row.name for row in rows]
    if dims == 1:
        steps = positions[0, :, 0].numpy() - queries.numpy()[:, None]
        return curves(title, blocks, steps, names, columns, "relative position of the key")
    note = "ring: the query" + (", its token is random" if any(option.content_dependent for option in each) else "")
    note += "; first axis down, second to the right" if dims == 2 else ""
    note += "; gray: keys it does not see" if any(np.isinf(block.values).any() for block in blocks) else ""
    marks = [[row.mark] * len(columns) for row in rows]
    if len(columns) == 1:  # transpose: one row of maps
        blocks = [Panels(b.name, b.values.swapaxes(0, 1), b.kind, b.limit) for b in blocks]
        names, columns = columns, names if dims == 3 else [name.replace("\n", " ") for name in names]
        marks = [[row.mark for row in rows]]
    return heat_maps(title, blocks, names, columns, marks, note)


def _format_options(options: dict[str, Any]) -> str:
    return f" ({', '.join(f'{key}={value}' for key, value in options.items())})" if options else ""
