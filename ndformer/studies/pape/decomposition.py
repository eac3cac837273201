"""Figures 2 and 3 of the PaPE paper: attention split into distance, direction and semantics, and which heads use which.

Each cell writes a picture of one image's attention maps, maps.png, to its folder. It shows an image of the data set, so
it is not published.
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
from ndformer.lab.verdicts import above, ahead, below
from ndformer.studies.grid import train
from ndformer.studies.inspection import STATES, attention_maps, draw_maps, inspect_run, over_state, split_state
from ndformer.studies.pape.encodings import PAPER, TWO
from ndformer.studies.training import Run

DEPTH, HEADS = 4, 4
POSITIONAL = ("distance", "direction")
SCALE = Scale(3, minutes=39, data=tuple(on.data for on in TWO.values()))


def measure_layer(cell: Cell) -> Values:
    """Return z of each head of a layer, their mean, and the largest |z|."""
    layer, untrained, control = split_state(cell.row)
    values: Values = {}
    for name, on in TWO.items():
        _, layer_maps, _ = inspect_run(train(cell, on, PAPER["PaPE"], control), untrained)
        heads = z_scores(layer_maps[int(layer.removeprefix("layer ")) - 1])
        values |= {f"{name} head {head}": z for head, z in enumerate(heads.tolist(), 1)}
        values |= {f"{name} z": heads.mean().item(), f"{name} strongest": heads.abs().max().item()}
    return values


def measure_terms(cell: Cell) -> Values:
    """Return the spread of each term over the keys, the distance of attention, and the difference from the paper."""
    name, untrained, control = split_state(cell.row)
    run = train(cell, TWO[name], PAPER["PaPE"], control)
    model, layer_maps, images = inspect_run(run, untrained)
    draw_maps(cell.folder / "maps.png", f"{cell.row}: layer 2", layer_maps[1], images, maps(layer_maps[1], images))
    values = {
        term: mean(layer_map.terms()[term].std(-1).mean() for layer_map in layer_maps)
        for term in ("semantic", *POSITIONAL)
    }
    return values | {"near": mean(map(nearness, layer_maps)), "rest": concatenated(run, model, images)}


def nearness(layer_map: AttentionMaps) -> Tensor:
    """Return the mean distance of the attended keys over the mean distance of all keys."""
    distances = torch.cdist(layer_map.where.positions[0], layer_map.where.positions[0])
    return (layer_map.attention() * distances).sum(-1).mean() / distances.mean()


def mean(values: Iterable[Tensor]) -> float:
    return torch.stack(list(values)).mean().item()


@torch.no_grad()
def concatenated(run: Run, model: TokenModel, images: Tensor) -> float:
    """Return the largest difference in the features when the same weights use the paper's concatenation."""
    settings = copy.deepcopy(run.settings)
    encoding = settings.model.backbone.encoding
    (encoding if isinstance(encoding, dict) else encoding[-1])["impl"] = "paper_concat"
    paper_model = build_model(settings).eval()
    paper_model.load_state_dict(model.state_dict())
    features = model.features(dict(image=images)).features
    return (paper_model.features(dict(image=images)).features - features).abs().max().item()


def maps(layer_map: AttentionMaps, images: Tensor) -> list[Panels]:
    """Return the panels of Figure 2 for the brightest patch of the first image."""
    terms = attention_maps(layer_map, images)
    blocks = [Panels(name, terms[name], "signed", limit=10.0) for name in (*POSITIONAL, "semantic")]
    return [*blocks, Panels("attention", terms["attention"], "share")]


def draw_heads(results: Results, path: Path) -> None:
    """Draw z of each head of the first seed (heads of different seeds do not correspond), by data set and state."""
    names = [(name, state) for name in TWO for state in STATES]
    title = "positions (red) or semantics (blue): z of each head, first seed"
    with new_figure(1 + 1.7 * len(names), 2.6, title) as figure:
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


FIRST, LAST = "layer 1", f"layer {DEPTH}"
MEAN_Z, STRONGEST = ([f"{name} {value}" for name in TWO] for value in ("z", "strongest"))
_, UNTRAINED, LABELS, PLACES = STATES
EXPERIMENTS = [
    Experiment(
        "pape:figure2",
        "Attention of trained models, split into distance, direction and semantics",
        rows=tuple(name + state for name in TWO for state in STATES),
        columns={
            "semantic": "semantic, spread over keys",
            "distance": "distance",
            "direction": "direction",
            "near": "distance of attention (1: mean distance of keys)",
            "rest": "difference from the paper's form",
        },
        measure=measure_terms,
        scales={"small": SCALE},
        claims=(
            below("the three maps sum to the paper's own form", TWO, "rest", 1e-3),
            below("attention decays with distance: less than half of the mean distance of keys", TWO, "near", 0.5),
            over_state("training learns directions: a larger spread than untrained", TWO, UNTRAINED, "direction"),
            over_state("control: a larger spread than with shuffled positions", TWO, PLACES, "direction"),
            above("control: untrained attention reaches farther", [name + UNTRAINED for name in TWO], "near", 0.5),
        ),
        about=(
            "Models as in table1, trained again (the paper's initialization, class token in the center), on 64 test "
            "images. Spread: standard deviation of a term over the keys of a query, averaged over queries, heads and "
            "layers. Distance of attention: mean distance of the attended keys over the mean distance of all keys. "
            "Difference: the largest in a token's output when the same weights use the paper's concatenation. Maps of "
            "one image are in each cell's folder, maps.png."
        ),
    ),
    Experiment(
        "pape:figure3",
        "z of heads by layer: above 0 positions dominate, below 0 semantics",
        rows=tuple(f"layer {layer}{state}" for state in STATES for layer in range(1, DEPTH + 1)),
        columns={
            f"{name} {key}": f"{name}, {heading}"
            for name in TWO
            for key, heading in (("z", "mean z of heads"), ("strongest", "largest |z| of a head"))
        },
        measure=measure_layer,
        scales={"small": SCALE},
        claims=(
            ahead("early layers use positions most: z of the first layer above z of the last", FIRST, LAST, MEAN_Z),
            ahead("specialized heads are in early layers", FIRST, LAST, STRONGEST),
            above("some head of the first layer is specialized: |z| above 0.5", FIRST, STRONGEST, 0.5),
            ahead("control: z of the first layer is above that with random labels", FIRST, FIRST + LABELS, MEAN_Z),
            ahead("control: z of the first layer is above that with shuffled positions", FIRST, FIRST + PLACES, MEAN_Z),
            ahead("control: the same in the untrained model", FIRST + UNTRAINED, LAST + UNTRAINED, MEAN_Z),
        ),
        about=(
            "The models of figure2. Equation 16 over the keys that have 80 % of a query's attention, on 64 test "
            "images; four layers of four heads here, twelve of twelve in the paper. The picture shows the first seed. "
            "A head that uses only distance has z below 0, because P is at most 1 and Y is 1. By its definition z has "
            "no bounds: a head that attends far away has exp(q k') without a small P. One such head of one seed can "
            "decide a mean, as for hand signs with random labels; with shuffled positions there are many, and z "
            "has up to 24 digits. Terms are as attention adds them, divided by the square root of the head's width."
        ),
        draw=draw_heads,
    ),
]
