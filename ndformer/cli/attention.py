"""Attention between the tokens of a sample: recording it in a model, and preparing pictures of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from ndformer.cli.attention_picture import Painting
from ndformer.cli.photo import with_photo
from ndformer.framework.adapter import Adapter
from ndformer.framework.attention_maps import AttentionMaps, record_attention
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.run import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.canvas import Canvas
from ndformer.framework.pictures.figures import Panels
from ndformer.framework.pictures.samples import find_pack

LIMIT = 10.0  # of logits in pictures: exp(-10) is almost no attention
MAX_DISTANCES = 2**24  # computed in one call
EXACT = "donot_use_mm_for_euclid_dist"  # with it a position's distance to itself is 0
MAX_BYTES = 2**31  # of one term of the logits; a layer has a few


class QueryView(NamedTuple):
    """Indices to read a layer's attention maps for one query token: of each token's key, and of the query."""

    row: Tensor  # (N,) row of each token's key
    slot: Tensor  # (N,) slot in that row, -1 where the token is in no row of the query
    query: Tensor  # (R,) slot of the query in each row, -1 in rows without it

    def values(self, term: Tensor) -> Tensor:
        """Read (R, H, K, K) as (H, N), with NaN for tokens that the query does not attend to."""
        row, slot = self.row.cpu(), self.slot.cpu()
        query = self.query.cpu()[row]
        values = term.cpu()[row, :, query.clamp(min=0), slot.clamp(min=0)].float()  # (N, H)
        hidden = (query < 0) | (slot < 0)
        return values.masked_fill(hidden[:, None] | values.isinf(), math.nan).T


@dataclass(frozen=True, eq=False)
class SampleAttention:
    """The attention maps of a model on one sample, and the canvas to draw them on."""

    title: str
    answer: Any
    maps: list[AttentionMaps]
    canvas: Canvas
    positions: Tensor  # (N, P) of its tokens
    slots: Tensor  # (N,) of these tokens in the sequence
    prefix_slots: Tensor  # (S,) of class and register tokens
    has_class_token: bool  # the first of them is a class token

    @property
    def layers(self) -> list[list[AttentionMaps]]:
        """Attention maps by layer; a layer that cuts tokens into windows may have several, with different rows."""
        layers: list[list[AttentionMaps]] = []
        for maps in self.maps:
            if layers and maps.cut is not None and layers[-1][0].layer is maps.layer:
                layers[-1].append(maps)
            else:
                layers.append([maps])
        return layers

    def token(self, text: str | None) -> int | None:
        """Return the index of the token that a text names; None: the class token, which is the default."""
        if text == "class" and not self.has_class_token:
            raise DataError(f"this model has no class token: choose another, --query {self.canvas.how}")
        if text == "class" or (text is None and self.has_class_token):
            return None
        return self.canvas.middle if text is None else self.canvas.token(text)

    def named(self, token: int | None) -> str:
        return "class" if token is None else self.canvas.named(token)

    def select(self, layer: Sequence[AttentionMaps], token: int | None) -> tuple[AttentionMaps, QueryView]:
        """Return the maps of a layer that contain a query token, and its view of them."""
        views = [(maps, self.view(maps, token)) for maps in layer]
        return next((pair for pair in views if bool((pair[1].query >= 0).any())), views[0])

    def view(self, maps: AttentionMaps, token: int | None) -> QueryView:
        """Return where a query token and all keys are in attention maps; rows are matched by position."""
        N = len(self.positions)
        if maps.cut is None:
            query = self.prefix_slots[:1] if token is None else self.slots[token][None]
            return QueryView(torch.zeros(N, dtype=torch.long), self.slots, query)
        positions, row_positions, valid = self._shared_axes(maps)
        R, K = valid.shape
        min_distance, index = _nearest(positions, row_positions.flatten(0, 1), valid.flatten())
        if token is None:
            placed = maps.where.placed
            if placed is None or bool(placed.all()):
                raise DataError(f"layers of this model have no class token: choose another, --query {self.canvas.how}")
            first = (~placed).long().argmax(1).masked_fill(placed.all(1), -1)
            return QueryView(index // K, index % K, first.expand(R))
        axes = [self._shared_axes(other) for other in self.maps if other.layer is maps.layer and other is not maps]
        for points, places, real in axes:  # rows of the same layer in another call
            min_distance = torch.minimum(min_distance, _nearest(points, places.flatten(0, 1), real.flatten())[0])
        query = torch.full((R,), -1)
        row, slot = int(index[token]) // K, int(index[token]) % K
        distance, slots = _nearest(positions, row_positions[row], valid[row])
        if _is_minimum(distance[token], min_distance[token]):
            query[row] = slot
        return QueryView(torch.full((N,), row), slots.masked_fill(~_is_minimum(distance, min_distance), -1), query)

    def _shared_axes(self, maps: AttentionMaps) -> tuple[Tensor, Tensor, Tensor]:
        """Return positions along the axes that the rows have.

        These are (N, A) of all tokens and (R, K, A) of the rows, with a mask (R, K) that is False for padding.
        """
        places = maps.sample_positions  # (R, K, P)
        valid = places.new_ones(places.shape[:2], dtype=torch.bool) if maps.where.real is None else maps.where.real
        axes = ~places.isnan().any(0).any(0)
        return self.positions.to(places)[:, axes], places[..., axes], valid.expand(places.shape[:2])


def _is_minimum(distance: Tensor, minimum: Tensor) -> Tensor:
    return distance <= minimum * (1 + 1e-5) + 1e-6


def _nearest(points: Tensor, places: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Return distance and index of the nearest valid place (M, P) for each point (N, P)."""
    chunks = [
        torch.cdist(chunk, places, compute_mode=EXACT).masked_fill(~valid, math.inf).min(1)
        for chunk in points.split(max(1, MAX_DISTANCES // len(places)))
    ]
    return torch.cat([chunk.values for chunk in chunks]), torch.cat([chunk.indices for chunk in chunks])


def logit_terms(maps: AttentionMaps) -> dict[str, Tensor]:
    """Return the terms of a layer's logits, or raise if they would fill the memory."""
    rows, tokens, heads = maps.x.shape[0], maps.x.shape[1], maps.layer.heads
    if 4 * rows * heads * tokens**2 > MAX_BYTES:
        raise DataError(
            f"a layer has {rows} x {tokens} tokens and {heads} heads, {4e-9 * rows * heads * tokens**2:.1f} GB for a "
            "term of its logits: give a smaller sample, or fewer points (GridSample, grid_size, window)"
        )
    return maps.terms()


@torch.no_grad()
def record(
    model: TokenModel, prepared: Preparation, sample: Sample, title: str, classes: Sequence[str]
) -> SampleAttention:
    """Run a model on a sample that was transformed as in the test set, and record its attention."""
    batch = collate([sample])
    tokens = model.tokens(model.to_device(batch)["inputs"])
    where = tokens.where
    name = next(name for name in model.modalities if sample["inputs"].get(name) is not None)
    adapter = cast(Adapter, model.modalities[name])
    mask = where.positions.new_ones(where.positions.shape[1], dtype=torch.bool)
    mask = (mask if where.valid is None else where.valid[0]).clone()
    owners = {number: model.modalities[name] for name, number in model.numbers.items()}
    prefix = []
    for number, owner in owners.items() if tokens.modality is not None else [(0, adapter)]:
        own = mask if tokens.modality is None else mask & (tokens.modality[0] == number)
        prefix.append(own.nonzero()[:, 0][: len(cast(Adapter, owner).prefix_names)])
    prefix_slots = torch.cat(prefix)
    mask[prefix_slots] = False
    positions = where.positions[0][mask].cpu()
    pack = find_pack(name, prepared.steps.get(name) or next(iter(prepared.steps.values())))
    if model.joint_modalities:
        assert tokens.modality is not None
        kinds = tokens.modality[0][mask].cpu()
        by_modality = {name: positions[kinds == i].double().numpy() for name, i in model.numbers.items()}
        canvas = adapter.joint_canvas(sample, pack, by_modality)
    else:
        canvas = adapter.canvas(sample, pack, positions.double().numpy())
    with record_attention(model) as maps:
        (answer,) = model.val_step(batch)
    if not maps:
        raise DataError(f"{type(model.backbone).__name__} has no attention layers that can be recorded")
    answer.class_names = list(classes)
    has_class_token = adapter.prefix_names[:1] == ("class token",)
    slots, prefix_slots = mask.nonzero()[:, 0].cpu(), prefix_slots.cpu()
    return SampleAttention(printable(title), answer, maps, canvas, positions, slots, prefix_slots, has_class_token)


def samples(
    cfg: Config, prepared: Preparation, names: Sequence[str], stand_in: bool, classes: Sequence[str]
) -> list[tuple[str, Sample]]:
    """Return samples with titles: files, folders, and test samples by number (5) or range (0-63)."""
    titled: list[tuple[str, Sample]] = []
    dataset: Any = None
    for text in names:
        first, _, last = text.partition("-")
        if Path(text).exists() or not first.isdecimal() or (last and not last.isdecimal()):
            titled += [(files[0].name, _read_files(prepared, files)) for files in prepared.samples_in([Path(text)])]
            continue
        if dataset is None:
            prepare_data(cfg, stand_in)
            dataset = build_loader(cfg, "test", classes).dataset
        numbers = range(int(first), int(last or first) + 1)
        if len(numbers) == 0 or numbers[-1] >= len(dataset):
            raise DataError(f"the test set has samples 0 to {len(dataset) - 1}, got {text}")
        for number in numbers:
            sample = dataset[number]
            if "inputs" not in sample:
                raise DataError(f"sample {number} of the test set cannot be read: choose another one")
            if not isinstance(dataset, Mixture):
                raw = dataset.read(dataset.records[number])
                sample = with_photo(sample, raw, cfg.test_dataloader.dataset.get("transforms", ()))
            titled.append((f"sample {number}{_truth(sample, dataset.classes)}", sample))
    return titled


def _read_files(prepared: Preparation, files: tuple[Path, ...]) -> Sample:
    sample, (first, *further) = prepared.sample(files), files
    if further or list(sample["inputs"]) != ["image"]:
        return sample
    return with_photo(sample, prepared.opened(first), prepared.chains["image"])


def _truth(sample: Sample, classes: Sequence[str]) -> str:
    label = sample.get("data_sample", {}).get("label", -1)
    has_class_token = isinstance(label, (int, np.integer)) and 0 <= label < len(classes)
    return f", class {classes[int(label)]}" if has_class_token else ""


def indices(number: int | None, count: int, option: str) -> list[int]:
    """Return the index of a number from 1, or of all `count` if there is none."""
    if number is not None and not 1 <= number <= count:
        raise DataError(f"--{option}: expected a number from 1 to {count}, got {number}")
    return list(range(count)) if number is None else [number - 1]


@dataclass(frozen=True)
class Selection:
    """The layer and head (from 1; None: all) and the query tokens of a picture. `parts`: draw the logits' terms too."""

    layer: int | None = None
    head: int | None = None
    queries: Sequence[str] = ()
    parts: bool | None = None  # None: if one layer or one head is selected


def painting(sample: SampleAttention, selection: Selection, title: str, in_moments: bool) -> Painting:
    """Return a picture: rows are layers or the queries of one layer, columns are heads or moments in time."""
    layers = sample.layers
    numbers = indices(selection.layer, len(layers), "layer")
    heads = indices(selection.head, max(layers[i][0].heads for i in numbers), "head")
    tokens = [sample.token(text) for text in selection.queries or [None]]
    if len(numbers) > 1 and len(tokens) > 1:
        raise DataError("several queries need one layer: choose it with --layer, or give one query")
    rows = [(layers[i], token) for i in numbers for token in tokens]
    by_layer = len(numbers) > 1
    names = [f"layer {i + 1}" for i in numbers] if by_layer else [f"query {sample.named(token)}" for token in tokens]
    names = names if len(names) > 1 else [""]
    title += "" if by_layer else f", layer {numbers[0] + 1}"
    title += f", query {sample.named(tokens[0])}" if len(tokens) == 1 else ""
    parts = len(numbers) == 1 or len(heads) == 1 if selection.parts is None else selection.parts
    blocks = panels(sample, rows, heads, parts)
    queries = [token for _, token in rows]
    note = "ring: the query" if any(token is not None for token in queries) else ""
    hidden = any(np.isnan(block.values).any(-1).any() and not np.isnan(block.values).all() for block in blocks)
    note += "; " * bool(note and hidden) + "gray: tokens it does not attend to" * hidden
    if any(text and "off" in text for block in blocks for texts in block.beneath for text in texts):
        note += "; " * bool(note) + "off: attention to class and register tokens"
    columns = [f"head {h + 1}" for h in heads]
    in_moments = in_moments and len(sample.canvas.stills) > 1
    title += f", {columns[0]}" if in_moments and len(columns) == 1 else ""
    return Painting(title, blocks, names, columns, queries, sample.canvas, note, in_moments)


def panels(
    sample: SampleAttention, rows: Sequence[tuple[Sequence[AttentionMaps], int | None]], heads: list[int], parts: bool
) -> list[Panels]:
    """Return a block of panels for attention, after one for each term of the logits if `parts`."""
    by_name: dict[str, dict[int, np.ndarray]] = {}
    off: dict[int, np.ndarray] = {}
    for r, (layer, token) in enumerate(rows):
        maps, view = sample.select(layer, token)
        terms = logit_terms(maps)
        logits = sum(terms.values(), torch.zeros(()))
        unseen = logits.isneginf()  # keys, which are gray in all panels
        for name, term in terms.items() if parts else ():
            if name == "mask":  # 0 or -inf
                continue
            by_name.setdefault(name, {})[r] = view.values(term.expand_as(logits).masked_fill(unseen, -math.inf)).numpy()
        attention = logits.softmax(-1)
        by_name.setdefault("attention", {})[r] = view.values(attention.masked_fill(unseen, math.inf)).numpy()
        off[r] = _off_share(sample, maps, view, attention)
    N = len(sample.positions)
    blocks = []
    for name in [*(name for name in by_name if name != "attention"), "attention"]:
        values = np.full((len(rows), len(heads), N), np.nan, np.float32)
        for r, by_head in by_name[name].items():
            existing = [h for h in heads if h < len(by_head)]
            values[r, : len(existing)] = by_head[existing]
        if name != "attention":
            blocks.append(Panels(name, values, "signed", limit=LIMIT))
            continue
        beneath = [[_beneath(values[r, c], off[r], h) for c, h in enumerate(heads)] for r in range(len(rows))]
        blocks.append(Panels(name, values, "share", beneath=beneath))
    return blocks


def _off_share(sample: SampleAttention, maps: AttentionMaps, view: QueryView, attention: Tensor) -> np.ndarray:
    """Return the share of attention to class and register tokens, by head; empty if there are none."""
    if maps.cut is None:
        outside = torch.zeros(attention.shape[-1], dtype=torch.bool).index_fill(0, sample.prefix_slots, True)
        outside = outside.expand(len(attention), -1)
    else:
        placed = maps.where.placed
        outside = torch.zeros(attention.shape[0], attention.shape[-1], dtype=torch.bool)
        outside = outside if placed is None else (~placed).cpu().expand_as(outside)
    if not bool(outside.any()):
        return np.full(0, np.nan)
    with_query = (view.query >= 0).nonzero()[:, 0]
    share = (attention[with_query, :, view.query[with_query]].cpu() * outside[with_query][:, None]).sum(-1)  # (rows, H)
    return share.mean(0).numpy()


def _beneath(values: np.ndarray, off: np.ndarray, head: int) -> str:
    if np.isnan(values).all():
        return ""
    return f"max {np.nanmax(values):.2g}" + (f", off {off[head]:.0%}" if head < len(off) else "")
