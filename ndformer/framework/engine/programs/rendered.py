"""Pictures of a run that its report takes in: samples, where the model looks, the encoding before and after training.

They lie in the run's folder, shown/0.png and so on, and shown/shown.json says what they are: so a page of several runs
needs no data.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from ndformer.framework import foreign
from ndformer.framework.answers.gallery import cards, worst_and_best
from ndformer.framework.attention_maps import Look
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.engine.building import build_model, encoding_name
from ndformer.framework.engine.config.references import parse_reference
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.programs import attention
from ndformer.framework.engine.training import pretrained
from ndformer.framework.engine.training.evaluate import Evaluation
from ndformer.framework.engine.training.loading import Loader
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.attention import Painting
from ndformer.framework.pictures.cards import shortened
from ndformer.framework.pictures.encodings import NAMES
from ndformer.framework.pictures.figures import Panels
from ndformer.framework.pictures.runs import attempted
from ndformer.framework.pictures.samples import DatasetSource
from ndformer.framework.system import atomic, processes

FOLDER, TOLD = "shown", "shown.json"
SAMPLES, ATTENDED, HEADS = 8, 2, 8  # cards, pictures of attention, heads of the encoding's
SIZE, MOST, PNG = 2**22, 200, b"\x89PNG\r\n"  # bytes of a picture that a page takes in, how many, and how one begins


class Picture(NamedTuple):
    kind: str  # samples, attention or encoding
    says: str
    png: bytes  # none: why there is none is said


def leave(
    folder: Path, cfg: Config, model: TokenModel, loader: Loader, found: Evaluation, count: int = SAMPLES
) -> None:
    """Draw and write them; what cannot be drawn is a warning."""
    into = folder / FOLDER
    atomic.remove(into)
    into.mkdir()
    model.eval()
    told: list[dict[str, str]] = []
    with attempted("samples of the test set"):
        if processes.count() > 1:  # answers are of a share of the set alone
            raise DataError("several processes tested it: tools/report.py RUN --samples 8 draws them")
        for kind, says, save in _drawn(cfg, model, loader, found, count):
            name = f"{len(told)}.png"
            if save is None:
                told.append(dict(kind=kind, says=says, file=""))
                continue
            save(into / name)
            told.append(dict(kind=kind, says=says, file=name))
    atomic.write(into / TOLD, json.dumps(told, indent=1) + "\n")


def _drawn(
    cfg: Config, model: TokenModel, loader: Loader, found: Evaluation, count: int
) -> Iterator[tuple[str, str, Callable[[Path], object] | None]]:
    """The kind of each picture, what it says, and what writes it; None: it says why it cannot be drawn."""
    source, classes = DatasetSource(loader.data, loader.bad), loader.data.classes
    try:
        for says, card in cards(found.answers, classes, source, count).items():
            yield "samples", says, card.save
    except DataError as why:  # a modality without picture()
        yield "samples", f"Not drawn: {why}", None
    prepared, best = None, None
    with attempted("where the model looks"):
        try:
            prepared, least = Preparation(cfg, model), 0.3
            for i in worst_and_best(found.answers, ATTENDED):
                name = Path(found.answers[i].path).name or f"sample {i}"
                of = attention.seen(model, prepared, source.sample(i), name, classes)
                title = f"{of.title}: {shortened(of.answer.words(classes, 1, least), 420, 11)}"
                wanted = attention.Wanted(layer=len(of.layers), parts=False)
                yield "attention", title, attention.painting(of, wanted, title, True).save
                best = i, of
        except DataError as why:  # a model that looks nowhere, or joins
            yield "attention", f"Not drawn: {why}", None
    if prepared is None or best is None:
        return
    with attempted("the encoding before and after training"):
        i, of = best
        first = attention.seen(first_weights(cfg, model), prepared, source.sample(i), of.title, classes)
        drawn = before_and_after(cfg, model, of, first)
        if drawn is not None:
            yield "encoding", f"{encoding_name(cfg)}, first layer, before and after training", drawn.save


def read(folder: Path) -> list[Picture]:
    """Those that a run has left; of a stranger's folder nothing but pictures."""
    path = folder / FOLDER / TOLD
    if not path.is_file() or path.parent.is_symlink():
        return []
    try:
        told = foreign.plain_json(path)
        listed = [(str(one["kind"]), str(one["says"]), str(one["file"])) for one in told[:MOST]]
    except (ValueError, LookupError, TypeError):
        raise DataError(f"{path} is not what a run leaves: take it away") from None
    found, there = [], {one.name for one in path.parent.iterdir() if one.is_file()}
    for kind, says, name in listed:
        if not name:
            found.append(Picture(kind, says, b""))
            continue
        at = path.parent / name
        if Path(name).name != name or name not in there or at.is_symlink() or at.stat().st_size > SIZE:
            continue
        png = foreign.content(at)
        if png.startswith(PNG):
            found.append(Picture(kind, says, png))
    return found


def first_weights(cfg: Config, model: TokenModel) -> TokenModel:
    """The model that training began with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cfg.seed)
        first = build_model(cfg).eval()
    if cfg.get("weights") and parse_reference(cfg.weights).path.is_file():
        pretrained.begin(first, cfg)
    return first.to(next(model.parameters()).device)


@torch.no_grad()
def before_and_after(cfg: Config, model: TokenModel, after: attention.Seen, before: attention.Seen) -> Painting | None:
    """What the encoding does in the first layer for the token in the middle of a sample; None: nothing to be drawn."""
    states = {"before training": before, "after training": after}
    encoding = next((one for one in model.modules() if isinstance(one, PositionEncoding)), None)
    if encoding is None:
        return None
    token = after.scene.middle
    asked = [of.asked(of.layers[0], token) for of in states.values()]
    rows = [acts(look, encoding) for look, _ in asked]
    heads = min(HEADS, after.looks[0].layer.heads)
    blocks = []
    for name in dict.fromkeys(name for row in rows for name in row):
        values = np.full((len(rows), heads, len(after.places)), 0.0, np.float32)
        for r, (row, (_, through)) in enumerate(zip(rows, asked)):
            if name in row:
                values[r] = through.values(row[name])[:heads].numpy()
        kind = NAMES[name]
        blocks.append(Panels(kind["name"], values, kind["kind"], kind.get("limit", np.inf)))
    if not blocks:
        return None
    title = f"{encoding_name(cfg)}, first layer"
    columns = [f"head {h + 1}" for h in range(heads)]
    return Painting(title, blocks, list(states), columns, [token] * len(rows), after.scene, "ring: the query")


def acts(look: Look, encoding: PositionEncoding) -> dict[str, Tensor]:
    """(R, H, K, K) each: what it adds to the logits, what it makes of equal queries and keys, and how alike what it
    adds to tokens is. Those of them that it does."""
    found: dict[str, Tensor] = {}
    terms = {name: term for name, term in attention.terms_of(look).items() if name not in ("semantic", "mask")}
    layer, heads, width, x = look.encoding or look.layer.encoding, look.layer.heads, look.layer.head_dim, look.exact
    added = layer.input(encoding.embed(torch.zeros_like(x), look.state), look.state)
    if added.any():
        unit = torch.nn.functional.normalize(added, dim=-1)
        found["similarity"] = (unit @ unit.mT)[:, None].expand(-1, heads, -1, -1)
    same = x.new_ones(len(x), heads, x.shape[1], width)
    q, k = layer.qk(same, same, x, look.state)
    if not (torch.equal(q, same) and torch.equal(k, same)):
        found["logit"] = q @ k.mT * width**-0.5
    if terms:
        found["bias"] = sum(terms.values(), torch.zeros(())).expand(len(look.x), heads, -1, -1)
    return found
