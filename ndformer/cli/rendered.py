"""Pictures of a run for its report: samples, attention, and the encoding before and after training.

They are written to shown/0.png and so on in the run's folder, with captions in shown/shown.json, so that a report of
several runs needs no data.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from ndformer.cli import attention
from ndformer.cli.attention_picture import Painting
from ndformer.cli.encoding_pictures import NAMES
from ndformer.framework import foreign
from ndformer.framework.answers.gallery import MIN_SCORE, cards, worst_and_best
from ndformer.framework.attention_maps import AttentionMaps
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.engine.building import build_model, encoding_name
from ndformer.framework.engine.config.references import parse_reference
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training import pretrained
from ndformer.framework.engine.training.evaluate import Evaluation
from ndformer.framework.engine.training.loading import Loader
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.cards import shortened
from ndformer.framework.pictures.figures import Panels
from ndformer.framework.pictures.runs import attempted
from ndformer.framework.pictures.samples import DatasetSource
from ndformer.framework.system import atomic, processes

FOLDER, INDEX = "shown", "shown.json"
SAMPLES, ATTENTION_SAMPLES, HEADS = 8, 2, 8  # cards, pictures of attention, heads in the encoding's picture
MAX_BYTES, MAX_PICTURES, PNG = 2**22, 200, b"\x89PNG\r\n"  # limits when read back, and how a PNG file begins


class Picture(NamedTuple):
    """A picture for a report."""

    kind: str  # samples, attention or encoding
    caption: str
    png: bytes  # empty: the caption says why it was not drawn


def write(
    folder: Path, cfg: Config, model: TokenModel, loader: Loader, evaluation: Evaluation, count: int = SAMPLES
) -> None:
    """Draw the pictures into the run's folder; one that cannot be drawn is a warning."""
    into = folder / FOLDER
    atomic.remove(into)
    into.mkdir()
    model.eval()
    index: list[dict[str, str]] = []
    with attempted("samples of the test set"):
        if processes.count() > 1:  # each has answers for its share of the set
            raise DataError("several processes tested the model: ndformer report RUN --samples 8 draws the samples")
        for kind, caption, save in _pictures(cfg, model, loader, evaluation, count):
            name = "" if save is None else f"{len(index)}.png"
            if save is not None:
                save(into / name)
            index.append(dict(kind=kind, says=caption, file=name))
    atomic.write(into / INDEX, json.dumps(index, indent=1) + "\n")


def _pictures(
    cfg: Config, model: TokenModel, loader: Loader, evaluation: Evaluation, count: int
) -> Iterator[tuple[str, str, Callable[[Path], object] | None]]:
    """Yield kind, caption and a function that writes each picture; None: the caption says why it is not drawn."""
    source, classes = DatasetSource(loader.data, loader.bad), loader.data.classes
    try:
        for caption, card in cards(evaluation.answers, classes, source, count).items():
            yield "samples", caption, card.save
    except DataError as error:  # a modality without picture()
        yield "samples", f"Not drawn: {error}", None
    prepared, best = None, None
    with attempted("attention maps"):
        try:
            prepared = Preparation(cfg, model)
            for i in worst_and_best(evaluation.answers, ATTENTION_SAMPLES):
                name = Path(evaluation.answers[i].path).name or f"sample {i}"
                sample = attention.record(model, prepared, source.sample(i), name, classes)
                title = f"{sample.title}: {shortened(sample.answer.words(classes, 1, MIN_SCORE), 420, 11)}"
                selection = attention.Selection(layer=len(sample.layers), parts=False)
                yield "attention", title, attention.painting(sample, selection, title, True).save
                best = i, sample
        except DataError as error:  # a model without attention, or one that joins modalities
            yield "attention", f"Not drawn: {error}", None
    if prepared is None or best is None:
        return
    with attempted("the encoding before and after training"):
        i, after = best
        before = attention.record(initial_model(cfg, model), prepared, source.sample(i), after.title, classes)
        painting = before_and_after(cfg, model, after, before)
        if painting is not None:
            yield "encoding", f"{encoding_name(cfg)}, first layer, before and after training", painting.save


def read(folder: Path) -> list[Picture]:
    """Read the pictures of a run; from an untrusted folder, only PNG files in it."""
    path = folder / FOLDER / INDEX
    if not path.is_file() or path.parent.is_symlink():
        return []
    try:
        index = foreign.plain_json(path)
        entries = [(str(entry["kind"]), str(entry["says"]), str(entry["file"])) for entry in index[:MAX_PICTURES]]
    except (ValueError, LookupError, TypeError):
        raise DataError(f"{path} is damaged: it is not a file that a run wrote. Delete it") from None
    pictures, files = [], {file.name for file in path.parent.iterdir() if file.is_file()}
    for kind, caption, name in entries:
        if not name:
            pictures.append(Picture(kind, caption, b""))
            continue
        file = path.parent / name
        if Path(name).name != name or name not in files or file.is_symlink() or file.stat().st_size > MAX_BYTES:
            continue
        png = foreign.content(file)
        if png.startswith(PNG):
            pictures.append(Picture(kind, caption, png))
    return pictures


def initial_model(cfg: Config, model: TokenModel) -> TokenModel:
    """Build the model as it was before training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cfg.seed)
        first = build_model(cfg).eval()
    if cfg.get("weights") and parse_reference(cfg.weights).path.is_file():
        pretrained.begin(first, cfg)
    return first.to(next(model.parameters()).device)


@torch.no_grad()
def before_and_after(
    cfg: Config, model: TokenModel, after: attention.SampleAttention, before: attention.SampleAttention
) -> Painting | None:
    """Draw the effect of the encoding in the first layer on a sample's middle token; None: it has none."""
    states = {"before training": before, "after training": after}
    encoding = next((module for module in model.modules() if isinstance(module, PositionEncoding)), None)
    if encoding is None:
        return None
    token = after.canvas.middle
    views = [sample.select(sample.layers[0], token) for sample in states.values()]
    rows = [encoding_effects(maps, encoding) for maps, _ in views]
    heads = min(HEADS, after.maps[0].heads)
    blocks = []
    for name in dict.fromkeys(name for row in rows for name in row):
        values = np.full((len(rows), heads, len(after.positions)), 0.0, np.float32)
        for r, (row, (_, view)) in enumerate(zip(rows, views)):
            if name in row:
                values[r] = view.values(row[name])[:heads].numpy()
        kind = NAMES[name]
        blocks.append(Panels(kind["name"], values, kind["kind"], kind.get("limit", np.inf)))
    if not blocks:
        return None
    title = f"{encoding_name(cfg)}, first layer"
    columns = [f"head {h + 1}" for h in range(heads)]
    return Painting(title, blocks, list(states), columns, [token] * len(rows), after.canvas, "ring: the query")


def encoding_effects(maps: AttentionMaps, encoding: PositionEncoding) -> dict[str, Tensor]:
    """Return the effects of an encoding in a layer, (R, H, K, K) each.

    These are the bias of the logits, the logits of equal queries and keys, and the similarity of embeddings, each only
    if the encoding has it.
    """
    effects: dict[str, Tensor] = {}
    terms = {name: term for name, term in attention.logit_terms(maps).items() if name not in ("semantic", "mask")}
    layer, heads, width, x = maps.encoding or maps.layer.encoding, maps.layer.heads, maps.layer.head_dim, maps.exact
    added = layer.input(encoding.embed(torch.zeros_like(x), maps.state), maps.state)
    if added.any():
        unit = torch.nn.functional.normalize(added, dim=-1)
        effects["similarity"] = maps.all_heads((unit @ unit.mT)[:, None].expand(-1, heads, -1, -1))
    same = x.new_ones(len(x), heads, x.shape[1], width)
    q, k = layer.qk(same, same, x, maps.state)
    if not (torch.equal(q, same) and torch.equal(k, same)):
        effects["logit"] = maps.all_heads(q @ k.mT * width**-0.5)
    if terms:
        total = sum(terms.values(), torch.zeros(()))
        effects["bias"] = total.expand(*maps.all_heads(same).shape[:2], -1, -1)
    return effects
