"""Figure 4 of the SaPE2 paper: whether what it adds to attention tells subject from background.

Each cell leaves a picture of one image's maps in its folder, maps.png; it is made of the data set and stays there.
"""

import torch
from torch import Tensor

from ndformer.framework.attention_maps import AttentionMaps
from ndformer.framework.pictures.figures import Panels
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import Claim, above, ahead, combine
from ndformer.studies.data import MNIST, SIGN_DIGITS
from ndformer.studies.inspection import STATES, attention_maps, brightness, draw_maps, inspect_run
from ndformer.studies.sape2.tables import PAPER, SETS, run

ROWS = {f"{name}{state}": (name, state) for name in SETS for state in STATES}


def measure(cell: Cell) -> Values:
    name, state = ROWS[cell.row]
    untrained, control = STATES[state]
    found = run(cell, name, PAPER["SaPE2 + APE"], control)
    _, layer_maps, images = inspect_run(found, untrained)
    draw_maps(cell.folder / "maps.png", cell.row, layer_maps[0], images, maps(layer_maps[0], images))
    every = [compared(layer_map, images) for layer_map in layer_maps]
    return {column: sum(one[column] for one in every) / len(every) for column in every[0]}


def compared(layer_map: AttentionMaps, images: Tensor) -> Values:
    """Of one layer: the distance of patches across regions over that within one; how it goes with the distance in the
    picture; and how much more of its attention, in %, a patch gives to its own region because of it."""
    patches = brightness(images, layer_map.where).flatten(1)
    bright = patches > (patches.amin(1, keepdim=True) + patches.amax(1, keepdim=True)) / 2  # (B, n)
    before = layer_map.where.positions.shape[1] - patches.shape[1]
    terms = {name: term[:, :, before:, before:] for name, term in layer_map.terms().items()}
    unlike = terms["unlikeness"] * layer_map.layer.head_dim**0.5  # (B, H, n, n)
    same = (bright[:, None, :, None] == bright[:, None, None, :]).expand_as(unlike)
    other = ~torch.eye(patches.shape[1], dtype=torch.bool)
    place = layer_map.where.positions[0, before:]
    apart = torch.cdist(place, place).expand_as(unlike)
    alone, both = terms["semantic"].softmax(-1), (terms["semantic"] + terms["unlikeness"]).softmax(-1)
    own = ((both - alone) * same).sum(-1).mean()
    return {
        "across": (unlike[~same].mean() / unlike[same & other].mean()).item(),
        "apart": torch.corrcoef(torch.stack([unlike[..., other].flatten(), apart[..., other].flatten()]))[0, 1].item(),
        "own": 100 * own.item(),
    }


def maps(layer_map: AttentionMaps, images: Tensor) -> list[Panels]:
    """How unlike the brightest patch of the first image all others are, and where it looks."""
    found = attention_maps(layer_map, images)
    return [Panels("unlikeness", found["unlikeness"]), Panels("attention", found["attention"], "share")]


def over_state(text: str, state: str) -> Claim:
    """Claim a larger ratio of distances than in another state of the model."""
    return combine(text, [ahead("", name, f"{name}, {state}", "across") for name in SETS])


EXPERIMENTS = [
    Experiment(
        "sape2:figure4",
        "What SaPE2 adds between patches of subject and background",
        rows=tuple(ROWS),
        columns={
            "across": "distance across regions, over within",
            "apart": "its correlation with distance in the picture",
            "own": "attention it moves to one's own region, %",
        },
        measure=measure,
        scales={"small": Scale(3, 44, data=(MNIST, SIGN_DIGITS))},
        claims=(
            above("patches of one region are less distant than those of two", SETS, "across", 1),
            over_state("control: more so than untrained", "untrained"),
            over_state("control: more so than with random labels", "labels at random"),
            over_state("control: more so than with shuffled places", "places shuffled"),
            above("5.4: so patches attend more to what is like them", SETS, "own", 0),
        ),
        shows=("Figure 4",),
        about=(
            "SaPE2 + APE of Table 1 on 64 test images, means over layers and heads. A region is the bright or the dark "
            "patches of an image, parted half way between its darkest and brightest; the paper shows two photographs. "
            "Where places are shuffled, a patch is where the model has it. Distances enter attention with a plus "
            "(equation 16). Maps of one image lie in a cell's folder, maps.png."
        ),
    )
]
