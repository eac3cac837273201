"""The laboratory: experiments of papers and of our own, each a small file, run by tools/reproduce.py.

    find("thesis:table3")      one experiment
    every()                    all of them, by name

A file here that has EXPERIMENTS brings its own.
"""

import importlib
from functools import cache
from pathlib import Path

from ndformer.framework.engine.studies.experiment import Experiment
from ndformer.framework.errors import UnknownNameError, nearest

HERE = Path(__file__).parent
PAPERS = {  # name -> title, and what a reader of its page should know first
    "toys": (
        "Toys: what each position encoding can do",
        "Our own: a dozen tokens at random places, and questions that want one kind of knowledge about positions each.",
    ),
    "thesis": (
        "Position embeddings in vision transformers (a master's thesis, 2022)",
        "Red-green images: a red and a green square on black, 32 x 32 pixels, in patches of 4 x 4.",
    ),
    "vitarc": (
        "Tackling the Abstraction and Reasoning Corpus with Vision Transformers (ViTARC, 2024), an excerpt",
        "One page of the paper, on 2D-RPE, OPE and PEmixer. Tokens are cells of grids: [docs/arc.md](../arc.md).",
    ),
}


@cache
def every() -> dict[str, Experiment]:
    found: list[Experiment] = []
    for file in sorted(HERE.rglob("*.py")):
        if "EXPERIMENTS" in file.read_text(encoding="utf-8") and file != HERE / "__init__.py":
            parts = file.relative_to(HERE).with_suffix("").parts
            found += importlib.import_module(".".join([__name__, *parts])).EXPERIMENTS
    return {experiment.name: experiment for experiment in found}


def find(name: str) -> Experiment:
    if name not in every():
        raise UnknownNameError(f"no experiment '{name}'{nearest(name, every())} There are {len(every())}.")
    return every()[name]
