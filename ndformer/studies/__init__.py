"""Experiments of papers and of our own, which ndformer reproduce runs.

    find("thesis:table3")      one experiment
    every()                    all experiments, by name
    paper_experiments("thesis")        the experiments of a paper, in its order

A file in this package that defines EXPERIMENTS adds them.
"""

import importlib
import re
from functools import cache
from pathlib import Path

from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.lab import runner
from ndformer.lab.experiment import Cell, Experiment
from ndformer.studies.contents import CONTENTS, NOT_MEASURED

ROOT = Path(__file__).parent
PAPERS = {  # name -> title, introduction of the page
    "toys": (
        "Toys: what each position encoding can learn",
        "Our own tasks: twelve tokens at random positions, and questions that each need one kind of knowledge of them.",
    ),
    "thesis": (
        "Position embeddings in vision transformers (a master's thesis, 2022)",
        "Xiangxie Zhang, *How to encode location in the Vision Transformer? A study on position embeddings*, TU "
        "Delft. Red-green images: a red and a green square on black, 32 x 32 pixels, in patches of 4 x 4.",
    ),
    "pape": (
        "Parabolic Position Encoding: Vision-Centric, Principled, Extrapolatable, General (2026)",
        "Öhrström et al., [arXiv 2602.01418](https://arxiv.org/abs/2602.01418). Tables and figures are numbered, and "
        "the paper's figures copied, as in [version 1](https://arxiv.org/abs/2602.01418v1), *Where to Attend: A "
        "Principled Vision-Centric Position Encoding with Parabolas*, which claims that PaPE is best on 6 of 8 data "
        "sets and PaPE-RI on 1. [Version 2](https://arxiv.org/abs/2602.01418v2), with the title above, says that PaPE "
        "matches the best baseline on 5 of 8 and is better than all on 2. Both versions are tested.",
    ),
    "sape2": (
        "A 2D Semantic-Aware Position Encoding for Vision Transformers (2025)",
        "Chen et al., [arXiv 2505.09466](https://arxiv.org/abs/2505.09466): SaPE2, tested on CIFAR-10 and CIFAR-100.",
    ),
    "sincos2d": (
        "A note on 2D sinusoidal position encoding",
        "A page of an online glossary, whose address we do not have, without tables or figures. Its sentences are "
        "tested one by one, except those on other works (the defaults of ViT, MAE, DeiT and DETR).",
    ),
    "vitarc": (
        "Tackling the Abstraction and Reasoning Corpus with Vision Transformers (ViTARC, 2024), an excerpt",
        "Li et al., [arXiv 2410.06405](https://arxiv.org/abs/2410.06405): one page, on 2D-RPE, OPE and PEmixer. "
        "Tokens are cells of grids: [docs/get-started/arc.md](../get-started/arc.md).",
    ),
    "rectangles": (
        "Rectangles: what each position encoding makes of other heights and widths",
        "Our own study: models trained on squares, and on rectangles of many ratios in packed batches, tested at every "
        "height and width. [docs/how-to/any-size.md](../how-to/any-size.md).",
    ),
    "molecules": (
        "Molecules: what relative, rotation-invariant and directional positions are worth",
        "Our own study, on QM9 (Ramakrishnan et al. 2014) and on generated molecules: six properties from elements and "
        "positions in three dimensions. [docs/get-started/molecules.md](../get-started/molecules.md). For comparison, "
        "the authors of SchNet report 0.021 D for mu, 0.124 a0^3 for alpha, 74 meV for the gap, 0.158 a0^2 for R2, "
        "0.034 for Cv and 12 meV for U0, after training on 100,000 molecules "
        "([source](../../ndformer/weights/qm9-small/README.md)): less error than any model below, which were "
        "trained for 3 epochs.",
    ),
}


@cache
def every() -> dict[str, Experiment]:
    experiments: list[Experiment] = []
    for file in sorted(ROOT.rglob("*.py")):
        if "EXPERIMENTS" in file.read_text(encoding="utf-8") and file != ROOT / "__init__.py":
            parts = file.relative_to(ROOT).with_suffix("").parts
            experiments += importlib.import_module(".".join([__name__, *parts])).EXPERIMENTS
    return {experiment.name: experiment for experiment in sorted(experiments, key=lambda experiment: experiment.name)}


def paper_experiments(name: str) -> list[Experiment]:
    """Return the experiments of a paper in its order; those without a table or figure come last."""
    place = {item: number for number, item in enumerate(CONTENTS.get(name, ()))}
    experiments = [experiment for experiment in every().values() if experiment.paper == name]
    return sorted(
        experiments,
        key=lambda experiment: min((place.get(item, len(place)) for item in experiment.shows), default=len(place)),
    )


def find(name: str) -> Experiment:
    """Return an experiment by its name."""
    if name in every():
        return every()[name]
    paper, _, item = name.partition(":")
    label = re.sub(r"^([a-z]+)(\d.*)", r"\1 \2", item).capitalize()  # figure1: Figure 1
    names = [experiment.name for experiment in paper_experiments(paper) if label in experiment.shows]
    why = NOT_MEASURED.get(paper, {}).get(label)
    if names:
        raise UnknownNameError(f"no experiment '{name}': {label} is shown by {', '.join(names)}")
    if why:
        raise UnknownNameError(f"no experiment '{name}': {label} is {why}, with nothing to measure")
    choices = paper_experiments(paper) or every().values()
    raise UnknownNameError(
        f"no experiment '{name}'{nearest(name, every())} Known: {', '.join(experiment.name for experiment in choices)}"
    )


def measure_cell(name: str, cell: Cell) -> None:
    """Measure a cell of the experiment with this name, in a worker process."""
    runner.measure(find(name), cell)
