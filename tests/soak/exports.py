"""Graphs of models (.onnx, .pt2) beside the models: encodings x tasks, at sizes that the graph was not made with.

python -m tests.soak.exports                                   the encodings of the PaPE paper and RelativeBias
python -m tests.soak.exports --encodings all --tasks classification

Each line has the largest difference of a file from its model, as a share of the largest value said where that is above
1. It ends with an error where one is above 1e-4, or where there is no file.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework import graph
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import ENCODINGS

NAMES = ["NoPE", "Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", "PaPE", "PaPERI", "RelativeBias"]
PYRAMID = dict(type="SimpleFeaturePyramid", width=16, scales=(2, 1, 0.5))
HEADS: dict[str, dict[str, Any]] = {
    "classification": dict(type="Classifier", classes=5, pool="class"),
    "detection": dict(type="Detector", classes=3, patch=4, neck=PYRAMID),
    "segmentation": dict(type="Segmenter", classes=5, patch=4, neck=PYRAMID),
}
SIZES = [(2, 32, 24), (1, 16, 40), (3, 56, 56)]  # the graph is made with the first
WORST = 1e-4


def model_of(name: str, task: str, depth: int = 2) -> TokenModel:
    """With weights that are nowhere 0."""
    torch.manual_seed(0)
    blocks = dict(type="Transformer", dim=32, depth=depth, heads=2, position_dims=2, encoding=dict(type=name))
    adapter = dict(type="ImagePatches", patch=4, class_token=task == "classification")
    made = TokenModel(dict(image=adapter), blocks, HEADS[task])
    for weight in made.parameters():
        nn.init.normal_(weight, std=0.15)
    return made.eval()


def images() -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randn(count, 3, *sides, generator=draw) for count, *sides in SIZES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encodings", nargs="+", default=NAMES, help="their names, or all")
    parser.add_argument("--tasks", nargs="+", default=list(HEADS), choices=list(HEADS))
    parser.add_argument("--kinds", nargs="+", default=[".pt2", ".onnx"], choices=graph.ENDINGS)
    given = parser.parse_args()
    ENCODINGS.get("NoPE")  # the first look-up finds all
    ours = sorted(name for name, kind in ENCODINGS.module_dict.items() if kind.__module__.startswith("ndformer."))
    bad = 0
    for task in given.tasks:
        for name in ours if given.encodings == ["all"] else given.encodings:
            start, model = time.monotonic(), model_of(name, task)
            found = []
            for kind in given.kinds:
                try:
                    apart = written(model, kind)
                    bad += not apart <= WORST
                    found.append(f"{kind} {apart:.1e}")
                except DataError as error:
                    bad += 1
                    found.append(f"{kind} {error}")
            print(f"{task:14}  {name:16}  {'  '.join(found)}  {time.monotonic() - start:.0f} s", flush=True)
    sys.exit(f"{bad} of these are not as their models" if bad else None)


def written(model: TokenModel, kind: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{kind}")
        graph.save(path, graph.graph(model, images()[0]))
        apart = graph.max_difference(path, model, images())
    assert apart is not None, "onnxruntime is not installed"
    return apart


if __name__ == "__main__":
    main()
