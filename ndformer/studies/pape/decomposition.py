"""Figures 2 and 3 of the PaPE paper: attention as distance, direction and semantics, and which of them heads go by.

Each cell leaves a picture of one image's maps in its folder, maps.png; it is made of the data set and stays there.
"""

import copy
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.attention_maps import AttentionMaps, z_scores
from ndformer.framework.engine.building import build_model
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.figures import Panels, new_figure
from ndformer.lab.experiment import Cell, Experiment, Results, Scale, Values
from ndformer.lab.verdicts import Claim, above, ahead, below, combine
from ndformer.studies.inspection import STATES, attention_maps, draw_maps, inspect_run
from ndformer.studies.pape.encodings import PAPER, TWO, TWO_DATA, run
from ndformer.studies.training import Run

DEPTH, HEADS = 4, 4
POSITIONAL = ("distance", "direction")
LAYERS = {
    f"layer {layer}{state}": (layer, state) for state in STATES for layer in range(1, DEPTH + 1)
}  # rows of Figure 3
MAPS = {f"{name}{state}": (name, state) for name in TWO for state in STATES}  # rows of Figure 2


def measure_layer(cell: Cell) -> Values:
    """z of one layer: of its heads, their mean and the strongest."""
    layer, state = LAYERS[cell.row]
    untrained, control = STATES[state]
    values: Values = {}
    for name in TWO:
        _, layer_maps, _ = inspect_run(run(cell, name, PAPER["PaPE"], control), untrained)
        heads = z_scores(layer_maps[layer - 1])
        values |= {f"{name} head {head}": z for head, z in enumerate(heads.tolist(), 1)}
        values |= {f"{name} z": heads.mean().item(), f"{name} strongest": heads.abs().max().item()}
    return values


def measure_terms(cell: Cell) -> Values:
    """How far each term spreads over the keys of a query, how near attention stays, and whether the terms are all."""
    name, state = MAPS[cell.row]
    untrained, control = STATES[state]
    pape_run = run(cell, name, PAPER["PaPE"], control)
    model, layer_maps, images = inspect_run(pape_run, untrained)
    draw_maps(cell.folder / "maps.png", f"{cell.row}: layer 2", layer_maps[1], images, maps(layer_maps[1], images))
    values = {
        term: mean(layer_map.terms()[term].std(-1).mean() for layer_map in layer_maps)
        for term in ("semantic", *POSITIONAL)
    }
    return values | {"near": mean(map(nearness, layer_maps)), "rest": concatenated(pape_run, model, images)}


def nearness(layer_map: AttentionMaps) -> Tensor:
    """The mean distance of what is attended to, over that of all keys."""
    distances = torch.cdist(layer_map.where.positions[0], layer_map.where.positions[0])
    return (layer_map.attention() * distances).sum(-1).mean() / distances.mean()


def mean(values: Iterable[Tensor]) -> float:
    return torch.stack(list(values)).mean().item()


@torch.no_grad()
def concatenated(pape_run: Run, model: TokenModel, images: Tensor) -> float:
    """The largest difference in what comes out where the same weights attend by the paper's concatenation."""
    settings = copy.deepcopy(pape_run.settings)
    encoding = settings.model.backbone.encoding
    (encoding if isinstance(encoding, dict) else encoding[-1])["impl"] = "paper_concat"
    theirs = build_model(settings).eval()
    theirs.load_state_dict(model.state_dict())
    ours = model.features(dict(image=images)).features
    return (theirs.features(dict(image=images)).features - ours).abs().max().item()


def maps(layer_map: AttentionMaps, images: Tensor) -> list[Panels]:
    """Figure 2, for the brightest patch of the first image."""
    pape_run = attention_maps(layer_map, images)
    blocks = [Panels(name, pape_run[name], "signed", limit=10.0) for name in (*POSITIONAL, "semantic")]
    return [*blocks, Panels("attention", pape_run["attention"], "share")]


def draw_heads(results: Results, path: Path) -> None:
    """z of each head of the first seed, for heads of one number have nothing in common between seeds: a block for each
    set of data and state, layers from top to bottom."""
    names = [(name, state) for name in TWO for state in STATES]
    with new_figure(
        1 + 1.7 * len(names), 2.6, "positions (red) or semantics (blue): z of each head, first seed"
    ) as figure:
        axes = figure.subplots(1, len(names), squeeze=False)[0]
        for axis, (name, state) in zip(axes, names):
            rows = [f"layer {layer}{state}" for layer in range(1, DEPTH + 1)]
            columns = [f"{name} head {head}" for head in range(1, HEADS + 1)]
            heads = [[(results.column(row, column) or [np.nan])[0] for column in columns] for row in rows]
            axis.imshow(heads, cmap="RdBu_r", vmin=-1, vmax=1)
            axis.set(xticks=range(HEADS), yticks=range(DEPTH), title=f"{name}{state}")
            axis.set_xticklabels([f"H{head}" for head in range(1, HEADS + 1)])
            axis.set_yticklabels([f"L{layer}" for layer in range(1, DEPTH + 1)])
            axis.grid(False)
        figure.colorbar(axes[0].images[0], ax=axes.tolist(), extend="both")
    figure.savefig(path)


def over_state(text: str, state: str) -> Claim:
    """Claim that directions spread more than in another state of the model."""
    return combine(text, [ahead("", name, f"{name}, {state}", "direction") for name in TWO])


UNTRAINED = [f"{name}, untrained" for name in TWO]
FIRST, LAST = "layer 1", f"layer {DEPTH}"
UNTRAINED_FIRST, UNTRAINED_LAST = f"{FIRST}, untrained", f"{LAST}, untrained"
_, _, STATE_LABELS, STATE_PLACES = STATES
MEAN_Z, STRONGEST = ([f"{name} {value}" for name in TWO] for value in ("z", "strongest"))
EXPERIMENTS = [
    Experiment(
        "pape:figure2",
        "Attention of trained models taken apart into distance, direction and semantics",
        rows=tuple(MAPS),
        columns={
            "semantic": "semantic, spread over keys",
            "distance": "distance",
            "direction": "direction",
            "near": "how far attention goes (1: as far as keys are)",
            "rest": "difference from the paper's form",
        },
        measure=measure_terms,
        scales={"small": Scale(3, minutes=39, data=TWO_DATA)},
        claims=(
            below("the three maps sum to the paper's own form", TWO, "rest", 1e-3),
            below("attention decays with distance: half as far as keys are", TWO, "near", 0.5),
            over_state("training learns directions: a wider spread than untrained", "untrained"),
            over_state("control: a wider spread than with shuffled places", "places shuffled"),
            above("control: untrained attention goes farther than half", UNTRAINED, "near", 0.5),
        ),
        shows=("Figure 2",),
        about=(
            "Models as in table1, trained anew (PaPE as the paper starts it, class token in the middle), on 64 test "
            "images: standard deviations of each term over the keys of a query, averaged over queries, heads and "
            "layers; the mean distance of what is attended to, over that of all keys; the largest difference in a "
            "token behind the last block, where the same weights attend by the paper's concatenation. Maps of one "
            "image lie in each cell's folder, maps.png."
        ),
    ),
    Experiment(
        "pape:figure3",
        "z: whether heads go by positions (above 0) or by semantics (below), by layer",
        rows=tuple(LAYERS),
        columns={
            f"{name} {what}": f"{name}, {says}"
            for name in TWO
            for what, says in (("z", "mean z of heads"), ("strongest", "largest |z| of a head"))
        },
        measure=measure_layer,
        scales={"small": Scale(3, minutes=39, data=TWO_DATA)},
        claims=(
            ahead("early layers use positions most: z of the first over the last", FIRST, LAST, MEAN_Z),
            ahead("specialised heads cluster in early layers", FIRST, LAST, STRONGEST),
            above("some head of the first layer leans to one side: |z| above 0.5", "layer 1", STRONGEST, 0.5),
            ahead("control: z of the first layer over random labels", "layer 1", f"layer 1{STATE_LABELS}", MEAN_Z),
            ahead("control: z of the first layer over shuffled places", "layer 1", f"layer 1{STATE_PLACES}", MEAN_Z),
            ahead("control: untrained, too, z of the first over the last", UNTRAINED_FIRST, UNTRAINED_LAST, MEAN_Z),
        ),
        shows=("Figure 3",),
        about=(
            "The same models as in figure2. Equation 16 over the keys that have 80 % of a query's attention, on 64 "
            "test images; four layers of four heads here, twelve of twelve in the paper; the picture is of the "
            "first seed. A head that goes by distance alone has z below 0: P is at most 1 there, and Y is 1. As it "
            "is defined, z has no bounds: a head that looks far away has exp(q k') without the P that holds it "
            "down, and one such head of one seed may decide a mean, as it did for hand signs with labels at random; "
            "with shuffled places many do, and z has up to 24 digits. Terms are as attention adds them, divided by "
            "the root of the head's width."
        ),
        draw=draw_heads,
    ),
]
