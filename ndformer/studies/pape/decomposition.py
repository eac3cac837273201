"""Figures 2 and 3 of the PaPE paper: attention as distance, direction and semantics, and which of them heads go by.

Each cell leaves a picture of one image's maps in its folder, maps.png; it is made of the data set and stays there.
"""

import copy
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.attention_maps import Look, z_scores
from ndformer.framework.engine.building import build_model
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.figures import Panels, new_figure
from ndformer.lab.experiment import Cell, Claim, Experiment, Results, Scale, Values
from ndformer.lab.verdicts import above, ahead, below, each
from ndformer.studies.looks import STATES, draw_maps, maps_of, seen
from ndformer.studies.pape.encodings import PAPER, TWO, TWO_DATA, run
from ndformer.studies.training import Run

DEPTH, HEADS = 4, 4
POSITIONAL = ("distance", "direction")
LAYERS = {
    f"layer {layer}{state}": (layer, state) for state in STATES for layer in range(1, DEPTH + 1)
}  # rows of Figure 3
MAPS = {f"{name}{state}": (name, state) for name in TWO for state in STATES}  # rows of Figure 2


def of_layer(cell: Cell) -> Values:
    """z of one layer: of its heads, their mean and the strongest."""
    layer, state = LAYERS[cell.row]
    untrained, control = STATES[state]
    values: Values = {}
    for name in TWO:
        _, looks, _ = seen(run(cell, name, PAPER["PaPE"], control), untrained)
        heads = z_scores(looks[layer - 1])
        values |= {f"{name} head {head}": z for head, z in enumerate(heads.tolist(), 1)}
        values |= {f"{name} z": heads.mean().item(), f"{name} strongest": heads.abs().max().item()}
    return values


def of_terms(cell: Cell) -> Values:
    """How far each term spreads over the keys of a query, how near attention stays, and whether the terms are all."""
    name, state = MAPS[cell.row]
    untrained, control = STATES[state]
    found = run(cell, name, PAPER["PaPE"], control)
    model, looks, images = seen(found, untrained)
    draw_maps(cell.folder / "maps.png", f"{cell.row}: layer 2", looks[1], images, maps(looks[1], images))
    values = {term: mean_of(look.terms()[term].std(-1).mean() for look in looks) for term in ("semantic", *POSITIONAL)}
    return values | {"near": mean_of(map(nearness, looks)), "rest": concatenated(found, model, images)}


def nearness(look: Look) -> Tensor:
    """The mean distance of what is attended to, over that of all keys."""
    distances = torch.cdist(look.where.positions[0], look.where.positions[0])
    return (look.attention() * distances).sum(-1).mean() / distances.mean()


def mean_of(values: Iterable[Tensor]) -> float:
    return torch.stack(list(values)).mean().item()


@torch.no_grad()
def concatenated(found: Run, model: TokenModel, images: Tensor) -> float:
    """The largest difference in what comes out where the same weights attend by the paper's concatenation."""
    settings = copy.deepcopy(found.settings)
    encoding = settings.model.backbone.encoding
    (encoding if isinstance(encoding, dict) else encoding[-1])["impl"] = "paper_concat"
    theirs = build_model(settings).eval()
    theirs.load_state_dict(model.state_dict())
    ours = model.features(dict(image=images)).features
    return (theirs.features(dict(image=images)).features - ours).abs().max().item()


def maps(look: Look, images: Tensor) -> list[Panels]:
    """Figure 2, for the brightest patch of the first image."""
    found = maps_of(look, images)
    blocks = [Panels(name, found[name], "signed", limit=10.0) for name in (*POSITIONAL, "semantic")]
    return [*blocks, Panels("attention", found["attention"], "share")]


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
            heads = [[(results.of(row, column) or [np.nan])[0] for column in columns] for row in rows]
            axis.imshow(heads, cmap="RdBu_r", vmin=-1, vmax=1)
            axis.set(xticks=range(HEADS), yticks=range(DEPTH), title=f"{name}{state}")
            axis.set_xticklabels([f"H{head}" for head in range(1, HEADS + 1)])
            axis.set_yticklabels([f"L{layer}" for layer in range(1, DEPTH + 1)])
            axis.grid(False)
        figure.colorbar(axes[0].images[0], ax=axes.tolist(), extend="both")
    figure.savefig(path)


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
        measure=of_terms,
        scales={"small": Scale(3, minutes=39, data=TWO_DATA)},
        claims=(
            Claim(
                "the three maps sum to what the paper's own form computes",
                lambda r: each([below(r, name, "rest", 1e-3) for name in TWO]),
            ),
            Claim(
                "attention decays with distance: it goes less than half as far as keys are",
                lambda r: each([below(r, name, "near", 0.5) for name in TWO]),
            ),
            Claim(
                "training has learnt directions: they spread more than untrained",
                lambda r: each([ahead(r, name, f"{name}, untrained", "direction") for name in TWO]),
            ),
            Claim(
                "control: directions spread more than where places are shuffled",
                lambda r: each([ahead(r, name, f"{name}, places shuffled", "direction") for name in TWO]),
            ),
            Claim(
                "control: this is learnt, for untrained models attend farther than half",
                lambda r: each([above(r, f"{name}, untrained", "near", 0.5) for name in TWO]),
            ),
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
        measure=of_layer,
        scales={"small": Scale(3, minutes=39, data=TWO_DATA)},
        claims=(
            Claim(
                "positions are used most strongly in early layers: z of the first is above the last's",
                lambda r: each([ahead(r, "layer 1", f"layer {DEPTH}", f"{name} z") for name in TWO]),
            ),
            Claim(
                "specialised heads cluster in early layers",
                lambda r: each([ahead(r, "layer 1", f"layer {DEPTH}", f"{name} strongest") for name in TWO]),
            ),
            Claim(
                "some head leans clearly to one side: a |z| above 0.5 in the first layer",
                lambda r: each([above(r, "layer 1", f"{name} strongest", 0.5) for name in TWO]),
            ),
            Claim(
                "control: the first layer's z is above that of random labels",
                lambda r: each([ahead(r, "layer 1", "layer 1, labels at random", f"{name} z") for name in TWO]),
            ),
            Claim(
                "control: the first layer's z is above that of shuffled places",
                lambda r: each([ahead(r, "layer 1", "layer 1, places shuffled", f"{name} z") for name in TWO]),
            ),
            Claim(
                "control: untrained, the first layer's z is above the last's too",
                lambda r: each(
                    [ahead(r, "layer 1, untrained", f"layer {DEPTH}, untrained", f"{name} z") for name in TWO]
                ),
            ),
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
