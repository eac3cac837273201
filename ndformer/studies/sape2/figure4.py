"""Figure 4 of the SaPE2 paper: whether what it adds to attention tells subject from background.

Each cell leaves a picture of one image's maps in its folder, maps.png; it is made of the data set and stays there.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ndformer.framework.attention_maps import AttentionMaps
from ndformer.framework.pictures.figures import Panels
from ndformer.lab.experiment import Cell, Claim, Experiment, Results, Scale, Values, Verdict
from ndformer.lab.verdicts import above, ahead, each
from ndformer.studies.data import MNIST, SIGN_DIGITS
from ndformer.studies.looks import STATES, brightness, draw_maps, maps_of, seen
from ndformer.studies.sape2.tables import PAPER, SETS, run

ROWS = {f"{name}{state}": (name, state) for name in SETS for state in STATES}


def measure(cell: Cell) -> Values:
    name, state = ROWS[cell.row]
    untrained, control = STATES[state]
    found = run(cell, name, PAPER["SaPE2 + APE"], control)
    _, looks, images = seen(found, untrained)
    draw_maps(cell.folder / "maps.png", cell.row, looks[0], images, maps(looks[0], images))
    every = [compared(look, images) for look in looks]
    return {column: sum(one[column] for one in every) / len(every) for column in every[0]}


def compared(look: AttentionMaps, images: Tensor) -> Values:
    """Of one layer: the distance of patches across regions over that within one; how it goes with the distance in the
    picture; and how much more of its attention, in %, a patch gives to its own region because of it."""
    patches = brightness(images, look.where).flatten(1)
    bright = patches > (patches.amin(1, keepdim=True) + patches.amax(1, keepdim=True)) / 2  # (B, n)
    before = look.where.positions.shape[1] - patches.shape[1]
    terms = {name: term[:, :, before:, before:] for name, term in look.terms().items()}
    unlike = terms["unlikeness"] * look.layer.head_dim**0.5  # (B, H, n, n)
    same = (bright[:, None, :, None] == bright[:, None, None, :]).expand_as(unlike)
    other = ~torch.eye(patches.shape[1], dtype=torch.bool)
    place = look.where.positions[0, before:]
    apart = torch.cdist(place, place).expand_as(unlike)
    alone, both = terms["semantic"].softmax(-1), (terms["semantic"] + terms["unlikeness"]).softmax(-1)
    own = ((both - alone) * same).sum(-1).mean()
    return {
        "across": (unlike[~same].mean() / unlike[same & other].mean()).item(),
        "apart": torch.corrcoef(torch.stack([unlike[..., other].flatten(), apart[..., other].flatten()]))[0, 1].item(),
        "own": 100 * own.item(),
    }


def maps(look: AttentionMaps, images: Tensor) -> list[Panels]:
    """How unlike the brightest patch of the first image all others are, and where it looks."""
    found = maps_of(look, images)
    return [Panels("unlikeness", found["unlikeness"]), Panels("attention", found["attention"], "share")]


def on_both(judge: Callable[[Results, str], Verdict]) -> Callable[[Results], Verdict]:
    return lambda results: each([judge(results, name) for name in SETS])


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
            Claim(
                "patches of one region are less distant than those of two",
                on_both(lambda r, name: above(r, name, "across", 1)),
            ),
            Claim(
                "control: they are so more than untrained",
                on_both(lambda r, name: ahead(r, name, f"{name}, untrained", "across")),
            ),
            Claim(
                "control: they are so more than with random labels",
                on_both(lambda r, name: ahead(r, name, f"{name}, labels at random", "across")),
            ),
            Claim(
                "control: they are so more than where places are shuffled",
                on_both(lambda r, name: ahead(r, name, f"{name}, places shuffled", "across")),
            ),
            Claim(
                "5.4: so patches attend more to what is like them",
                on_both(lambda r, name: above(r, name, "own", 0)),
            ),
        ),
        shows=("Figure 4",),
        about=(
            "SaPE2 + APE of Table 1 on 64 test images, means over layers and heads. A region is the bright or the dark "
            "patches of an image, parted half way between its darkest and brightest; the paper shows two photographs. "
            "Where places are shuffled, a patch is where the model has it. Distances enter attention with a plus "
            "(equation 16). Maps of one image lie in a cell's folder, maps.png."
        ),
    ),
]
