"""Figure 4 of the SaPE2 paper: whether its attention term separates subject from background.

Each cell writes a picture of one image's attention maps, maps.png, to its folder. It shows an image of the data set, so
it is not published.
"""

import torch
from torch import Tensor

from ndformer.framework.attention_maps import AttentionMaps
from ndformer.framework.pictures.figures import Panels
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import above, combine
from ndformer.studies.grid import train
from ndformer.studies.inspection import (
    STATES,
    attention_maps,
    brightness,
    draw_maps,
    inspect_run,
    over_state,
    split_state,
)
from ndformer.studies.sape2.tables import PAPER, SETS

_, UNTRAINED, LABELS, PLACES = STATES


def measure(cell: Cell) -> Values:
    name, untrained, control = split_state(cell.row)
    run = train(cell, SETS[name], PAPER["SaPE2 + APE"], control)
    _, layer_maps, images = inspect_run(run, untrained)
    draw_maps(cell.folder / "maps.png", cell.row, layer_maps[0], images, maps(layer_maps[0], images))
    every = [compared(layer_map, images) for layer_map in layer_maps]
    return {column: sum(values[column] for values in every) / len(every) for column in every[0]}


def compared(layer_map: AttentionMaps, images: Tensor) -> Values:
    """Return for a layer the semantic distance of patches of two regions over that within one, its correlation with the
    distance in the picture, and the share of attention, in %, that it moves to a patch's own region."""
    patches = brightness(images, layer_map.where).flatten(1)
    bright = patches > (patches.amin(1, keepdim=True) + patches.amax(1, keepdim=True)) / 2  # (B, n)
    before = layer_map.where.positions.shape[1] - patches.shape[1]
    terms = {name: term[:, :, before:, before:] for name, term in layer_map.terms().items()}
    unlike = terms["unlikeness"] * layer_map.layer.head_dim**0.5  # (B, H, n, n)
    same = (bright[:, None, :, None] == bright[:, None, None, :]).expand_as(unlike)
    other = ~torch.eye(patches.shape[1], dtype=torch.bool)
    place = layer_map.where.positions[0, before:]
    distances = torch.cdist(place, place).expand_as(unlike)
    alone, both = terms["semantic"].softmax(-1), (terms["semantic"] + terms["unlikeness"]).softmax(-1)
    shift = ((both - alone) * same).sum(-1).mean()
    return {
        "across": (unlike[~same].mean() / unlike[same & other].mean()).item(),
        "apart": torch.corrcoef(torch.stack([unlike[..., other].flatten(), distances[..., other].flatten()]))[
            0, 1
        ].item(),
        "own": 100 * shift.item(),
    }


def maps(layer_map: AttentionMaps, images: Tensor) -> list[Panels]:
    """Return panels of the distances from the brightest patch of the first image, and of its attention."""
    terms = attention_maps(layer_map, images)
    return [Panels("unlikeness", terms["unlikeness"]), Panels("attention", terms["attention"], "share")]


EXPERIMENTS = [
    Experiment(
        "sape2:figure4",
        "SaPE2's distances between patches of subject and background",
        tuple(name + state for name in SETS for state in STATES),
        columns={
            "across": "distance across regions, over within",
            "apart": "its correlation with distance in the picture",
            "own": "attention moved to a patch's own region, %",
        },
        measure=measure,
        scales={"small": Scale(3, 44, data=tuple(on.data for on in SETS.values()))},
        claims=(
            combine(
                "training brings patches of one region nearer than patches of two",
                [above("", SETS, "across", 1), over_state("", SETS, UNTRAINED, "across")],
            ),
            over_state("control: the ratio is larger than with random labels", SETS, LABELS, "across"),
            over_state("control: the ratio is larger than with shuffled positions", SETS, PLACES, "across"),
            above("5.4: so patches attend more to similar patches", SETS, "own", 0),
        ),
        about=(
            "SaPE2 + APE of Table 1 on 64 test images, means over layers and heads. The regions of an image are its "
            "bright and its dark patches, divided halfway between the darkest and the brightest; the paper shows two "
            "photographs. With shuffled positions, patches are permuted as in the model. Distances enter attention "
            "with a plus sign (equation 16). Maps of one image are in a cell's folder, maps.png."
        ),
    )
]
