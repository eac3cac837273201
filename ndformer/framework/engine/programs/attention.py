"""What the tokens of a sample take of each other in a model, ready to be drawn over the sample."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from ndformer.framework.adapter import Adapter
from ndformer.framework.attention_maps import Look, looking
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.programs.photo import with_photo
from ndformer.framework.engine.run import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.attention import Painting, sheet
from ndformer.framework.pictures.canvas import Canvas
from ndformer.framework.pictures.figures import Panels
from ndformer.framework.pictures.samples import find_pack

LIMIT = 10.0  # of logits: at -10 nothing is left of attention
MOST = 2**24  # distances at once
EXACT = "donot_use_mm_for_euclid_dist"  # a place is at 0 from itself
LARGEST = 2**31  # bytes of a term of the logits, of which there are a few


class Through(NamedTuple):
    """A look as one token has it: the row and the slot that stand for each token of a scene, -1 where none does; the
    slot that looks in each row, -1 where it does not."""

    row: Tensor  # (N,)
    slot: Tensor  # (N,)
    query: Tensor  # (R,)

    def values(self, term: Tensor) -> Tensor:
        """(R, H, K, K) -> (H, N), NaN where the query does not see."""
        row, slot = self.row.cpu(), self.slot.cpu()
        query = self.query.cpu()[row]
        found = term.cpu()[row, :, query.clamp(min=0), slot.clamp(min=0)].float()  # (N, H)
        unseen = (query < 0) | (slot < 0)
        return found.masked_fill(unseen[:, None] | found.isinf(), math.nan).T


@dataclass(frozen=True, eq=False)
class Seen:
    """A sample and the looks of a model at it."""

    title: str
    answer: Any
    looks: list[Look]
    scene: Canvas
    places: Tensor  # (N, P) of its tokens
    prefix: int  # class and register tokens before them

    @property
    def layers(self) -> list[list[Look]]:
        """Looks by the layer that they are of: to one that cuts tokens there may be several, each with its own rows."""
        found: list[list[Look]] = []
        for look in self.looks:
            if found and look.cut is not None and found[-1][0].layer is look.layer:
                found[-1].append(look)
            else:
                found.append([look])
        return found

    def token(self, text: str | None) -> int | None:
        """The token that a text names; None: the class token, which is meant where nothing is said."""
        if text == "class" and self.prefix == 0:
            raise DataError(f"this model has no class token: ask for another, --query {self.scene.how}")
        if text == "class" or (text is None and self.prefix):
            return None
        return self.scene.middle if text is None else self.scene.token(text)

    def named(self, token: int | None) -> str:
        return "class" if token is None else self.scene.named(token)

    def asked(self, looks: Sequence[Look], token: int | None) -> tuple[Look, Through]:
        """Of a layer's looks the one that a token is in, and how it has it."""
        found = [(look, self.through(look, token)) for look in looks]
        return next((one for one in found if bool((one[1].query >= 0).any())), found[0])

    def through(self, look: Look, token: int | None) -> Through:
        N = len(self.places)
        if look.cut is None:
            query = torch.tensor([0 if token is None else self.prefix + token])
            return Through(torch.zeros(N, dtype=torch.long), self.prefix + torch.arange(N), query)
        mine, all_of, there = self._told(look)
        R, K = there.shape
        least, at = _nearest(mine, all_of.flatten(0, 1), there.flatten())
        if token is None:
            placed = look.where.placed
            if placed is None or bool(placed.all()):
                raise DataError(f"layers of this model have no class token: name another, --query {self.scene.how}")
            first = (~placed).long().argmax(1).masked_fill(placed.all(1), -1)
            return Through(at // K, at % K, first.expand(R))
        others = [self._told(one) for one in self.looks if one.layer is look.layer and one is not look]
        for own, places, real in others:  # rows of the same layer, seen in another call
            least = torch.minimum(least, _nearest(own, places.flatten(0, 1), real.flatten())[0])
        query = torch.full((R,), -1)
        row, slot = int(at[token]) // K, int(at[token]) % K
        away, slots = _nearest(mine, all_of[row], there[row])
        if _near(away[token], least[token]):
            query[row] = slot
        return Through(torch.full((N,), row), slots.masked_fill(~_near(away, least), -1), query)

    def _told(self, look: Look) -> tuple[Tensor, Tensor, Tensor]:
        """Along the axes that its rows tell: where the tokens of the scene are (N, A), those of its rows (R, K, A), and
        which of them are no padding (R, K)."""
        places = look.places  # (R, K, P)
        there = places.new_ones(places.shape[:2], dtype=torch.bool) if look.where.real is None else look.where.real
        told = ~places.isnan().any(0).any(0)  # axes
        return self.places.to(places)[:, told], places[..., told], there.expand(places.shape[:2])


def _near(away: Tensor, least: Tensor) -> Tensor:
    """Whether what is so far away is the nearest."""
    return away <= least * (1 + 1e-5) + 1e-6


def _nearest(points: Tensor, places: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """Of (N, P): how far the nearest of (M, P) that are there is, and which."""
    found = [
        torch.cdist(some, places, compute_mode=EXACT).masked_fill(~there, math.inf).min(1)
        for some in points.split(max(1, MOST // len(places)))
    ]
    return torch.cat([one.values for one in found]), torch.cat([one.indices for one in found])


def terms_of(look: Look) -> dict[str, Tensor]:
    """Its terms, unless they would fill the memory."""
    rows, tokens, heads = look.x.shape[0], look.x.shape[1], look.layer.heads
    if 4 * rows * heads * tokens**2 > LARGEST:
        raise DataError(
            f"a layer has {rows} x {tokens} tokens and {heads} heads, {4e-9 * rows * heads * tokens**2:.1f} GB for a "
            "term of its logits: look at a smaller sample, or at fewer points (GridSample, grid_size, window)"
        )
    return look.terms()


@torch.no_grad()
def seen(model: TokenModel, prepared: Preparation, sample: Sample, title: str, classes: Sequence[str]) -> Seen:
    """A sample that went through the transforms of the test set."""
    batch = collate([sample])
    tokens = model.tokens(model.at_home(batch)["inputs"])
    where = tokens.where
    name = next(one for one in model.modalities if sample["inputs"].get(one) is not None)
    adapter = cast(Adapter, model.modalities[name])
    kept = where.positions.new_ones(where.positions.shape[1], dtype=torch.bool)
    kept = kept if where.valid is None else where.valid[0]
    kept = kept & (torch.arange(len(kept), device=kept.device) >= len(adapter.named))
    places = where.positions[0][kept].cpu()
    pack = find_pack(name, prepared.steps.get(name) or next(iter(prepared.steps.values())))
    if model.joined:
        assert tokens.modality is not None
        kinds = tokens.modality[0][kept].cpu()
        each = {one: places[kinds == i].double().numpy() for i, one in enumerate(model.modalities)}
        scene = adapter.joint_scene(sample, pack, each)
    else:
        scene = adapter.scene(sample, pack, places.double().numpy())
    with looking(model) as looks:
        (answer,) = model.val_step(batch)
    if not looks:
        raise DataError(f"{type(model.backbone).__name__} has no layers of attention to look at")
    answer.known = list(classes)
    return Seen(printable(title), answer, looks, scene, places, len(adapter.named))


def samples(
    cfg: Config, prepared: Preparation, given: Sequence[str], stand_in: bool, classes: Sequence[str]
) -> list[tuple[str, Sample]]:
    """Files, folders, and samples of the test set by number or from one to another (0-63), by what they are called."""
    found: list[tuple[str, Sample]] = []
    dataset: Any = None
    for text in given:
        first, _, last = text.partition("-")
        if Path(text).exists() or not first.isdecimal() or (last and not last.isdecimal()):
            found += [(files[0].name, _of_files(prepared, files)) for files in prepared.samples_in([Path(text)])]
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
                raise DataError(f"sample {number} of the test set cannot be read: name another one")
            if not isinstance(dataset, Mixture):
                raw = dataset.read(dataset.records[number])
                sample = with_photo(sample, raw, cfg.test_dataloader.dataset.get("transforms", ()))
            found.append((f"sample {number}{_truth(sample, dataset.classes)}", sample))
    return found


def _of_files(prepared: Preparation, files: tuple[Path, ...]) -> Sample:
    sample, (first, *others) = prepared.sample(files), files
    if others or list(sample["inputs"]) != ["image"]:
        return sample
    return with_photo(sample, prepared.opened(first), prepared.chains["image"])


def _truth(sample: Sample, classes: Sequence[str]) -> str:
    label = sample.get("data_sample", {}).get("label", -1)
    known = isinstance(label, (int, np.integer)) and 0 <= label < len(classes)
    return f" ({classes[int(label)]})" if known else ""


def chosen(number: int | None, count: int, what: str) -> list[int]:
    if number is not None and not 1 <= number <= count:
        raise DataError(f"--{what} is a number from 1 to {count} here, got {number}")
    return list(range(count)) if number is None else [number - 1]


@dataclass(frozen=True)
class Wanted:
    """Which layer, head and tokens, counted from 1; None: all of them. `parts`: the terms of the logits too."""

    layer: int | None = None
    head: int | None = None
    queries: Sequence[str] = ()
    parts: bool | None = None  # None: where one layer or one head is


def painting(of: Seen, wanted: Wanted, title: str, in_moments: bool) -> Painting:
    """Rows are layers, or the queries of one layer; columns are heads, or moments of a scene that moves."""
    looks = of.layers
    layers = chosen(wanted.layer, len(looks), "layer")
    heads = chosen(wanted.head, max(looks[i][0].layer.heads for i in layers), "head")
    tokens = [of.token(text) for text in wanted.queries or [None]]
    if len(layers) > 1 and len(tokens) > 1:
        raise DataError("several queries are drawn for one layer: choose it with --layer, or name one query")
    rows = [(looks[i], token) for i in layers for token in tokens]
    by_layer = len(layers) > 1
    names = [f"layer {i + 1}" for i in layers] if by_layer else [f"query {of.named(token)}" for token in tokens]
    names = names if len(names) > 1 else [""]
    title += "" if by_layer else f", layer {layers[0] + 1}"
    title += f", query {of.named(tokens[0])}" if len(tokens) == 1 else ""
    parts = len(layers) == 1 or len(heads) == 1 if wanted.parts is None else wanted.parts
    blocks = panels(of, rows, heads, parts)
    queries = [token for _, token in rows]
    note = "ring: the query" if any(token is not None for token in queries) else ""
    unseen = any(np.isnan(block.values).any(-1).any() and not np.isnan(block.values).all() for block in blocks)
    note += "; " * bool(note and unseen) + "grey: what it does not see" * unseen
    if any(text and "off" in text for block in blocks for texts in block.beneath for text in texts):
        note += "; " * bool(note) + "off: attention to tokens that are not of the sample"
    columns = [f"head {h + 1}" for h in heads]
    if in_moments and len(of.scene.stills) > 1:
        title += f", {columns[0]}" if len(columns) == 1 else ""
        return sheet(title, blocks, names, columns, queries, of.scene, note)
    return Painting(title, blocks, names, columns, queries, of.scene, note)


def panels(of: Seen, rows: Sequence[tuple[Sequence[Look], int | None]], heads: list[int], parts: bool) -> list[Panels]:
    """A block of attention, and before it one per term; a row for each look and query."""
    found: dict[str, dict[int, np.ndarray]] = {}
    off: dict[int, np.ndarray] = {}
    for r, (looks, token) in enumerate(rows):
        look, through = of.asked(looks, token)
        terms = terms_of(look)
        for name, term in terms.items() if parts else ():
            if name == "mask":  # 0 where anything is seen
                continue
            found.setdefault(name, {})[r] = through.values(term.expand_as(terms["semantic"])).numpy()
        attention = sum(terms.values(), torch.zeros(())).softmax(-1)
        found.setdefault("attention", {})[r] = through.values(attention).numpy()
        off[r] = _off(of, look, through, attention)
    N = len(of.places)
    blocks = []
    for name in [*(one for one in found if one != "attention"), "attention"]:
        values = np.full((len(rows), len(heads), N), np.nan, np.float32)
        for r, one in found[name].items():
            there = [h for h in heads if h < len(one)]
            values[r, : len(there)] = one[there]
        if name != "attention":
            blocks.append(Panels(name, values, "signed", limit=LIMIT))
            continue
        beneath = [[_beneath(values[r, c], off[r], h) for c, h in enumerate(heads)] for r in range(len(rows))]
        blocks.append(Panels(name, values, "share", beneath=beneath))
    return blocks


def _off(of: Seen, look: Look, through: Through, attention: Tensor) -> np.ndarray:
    """(H,): the share of attention that goes to class and register tokens; nothing where there are none."""
    if look.cut is None:
        outside = torch.arange(attention.shape[-1]) < of.prefix
        outside = outside.expand(len(attention), -1)
    else:
        placed = look.where.placed
        outside = torch.zeros(attention.shape[0], attention.shape[-1], dtype=torch.bool)
        outside = outside if placed is None else (~placed).cpu().expand_as(outside)
    if not bool(outside.any()):
        return np.full(0, np.nan)
    looks = (through.query >= 0).nonzero()[:, 0]
    share = (attention[looks, :, through.query[looks]].cpu() * outside[looks][:, None]).sum(-1)  # (rows, H)
    return share.mean(0).numpy()


def _beneath(values: np.ndarray, off: np.ndarray, head: int) -> str:
    if np.isnan(values).all():
        return ""
    return f"max {np.nanmax(values):.2g}" + (f", off {off[head]:.0%}" if head < len(off) else "")
