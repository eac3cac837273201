#!/usr/bin/env python
"""Test point clouds with votes over several augmented views, as published protocols do.

python tools/vote.py configs/scannet_pape.py work_dirs/scannet_pape/best.pth --out votes  13 x fragments; can be resumed
python tools/vote.py configs/scannet_pape.py BEST --out votes --submit upload \\
    --cfg-options test_dataloader.dataset.test_on=test                                  files for the benchmark's server
python tools/vote.py configs/modelnet40_pape.py BEST --out votes                        10 votes; can be resumed
python tools/vote.py configs/modelnet40_pape.py BEST --repeats 10                       10 votes, ten times

Prints the figures of voting, and every few seconds how far it is. Those without it are tools/test.py's. Repeats of
ModelNet40's voting are reported as mean and spread, never as the best of them; each takes as long as the first.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ndformer.framework.answers.label import Label
from ndformer.framework.answers.points import Points
from ndformer.framework.answers.tables import write_table
from ndformer.framework.engine.building import build_model, check_classes, prepare_data
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, new_parser, run
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training import checkpoint, same_data
from ndformer.framework.engine.training.evaluate import as_line
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable
from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.heads.token_segmenter import TokenSegmenter
from ndformer.framework.registry import METRICS
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud import voting

EVERY = 5.0  # seconds


class Clock:
    """Says every few seconds what share of the work is done, and how long the rest will take."""

    def __init__(self) -> None:
        self.begin = self.said = time.monotonic()

    def __call__(self, what: str, share: float) -> None:
        now = time.monotonic()
        if now - self.said >= EVERY and 0 < share < 1:
            self.said = now
            left = (now - self.begin) * (1 - share) / share
            print(
                f"{what}: {share:.0%}, about {f'{left / 60:.0f} min' if left > 90 else f'{left:.0f} s'} left",
                flush=True,
            )


def objects(model: Any, data: Any, repeats: int, out: Path | None) -> str:
    """The figures; what was said of each object goes to a table."""
    found, right, clock = [], [], Clock()
    for number, (sample, votes) in enumerate(voting.vote_objects(model, data, repeats, out)):
        truth = int(data.labels[number])
        right.append(votes.argmax(1) == truth)
        about = dict(path=str(sample.get("path", data.name(number))), label=truth)
        found.append(Label(sample=about, scores=torch.from_numpy(votes.sum(0) / votes.sum()).float()))
        clock(f"{number + 1}/{len(data)} objects, accuracy so far {np.mean(right):.4f}", (number + 1) / len(data))
    accuracy = np.mean(right, axis=0)
    said = f"with voting: accuracy {accuracy.mean():.4f}"
    if repeats > 1:
        said += f", sd {accuracy.std(ddof=1):.4f}, {accuracy.min():.4f} to {accuracy.max():.4f} over {repeats} repeats"
        said += " of 10 votes"
    if out is not None:
        write_table(out / "predictions.csv", found, data.classes)
        values = dict(accuracy=float(accuracy.mean()), repeats=accuracy.tolist())
        atomic.write(out / "results.json", json.dumps(dict(test=values, voting=10), indent=1) + "\n")
        said += f"\n{out / 'predictions.csv'}"
    return said


def scenes(model: Any, data: Any, metric: Any, out: Path, batch: int) -> list[np.ndarray]:
    """The labels (N,) of every scene; prints the figures."""
    found, clock = [], Clock()
    told = lambda name, share: clock(
        f"{len(found) + 1}/{len(data)} {printable(name)}", (len(found) + share) / len(data)
    )
    for number, (name, sample, labels, seconds) in enumerate(voting.vote_scenes(model, data, out, batch, told)):
        found.append(labels)
        said = "was there" if seconds is None else f"{seconds:.1f} s"
        if "labels" in sample:
            metric.process(
                {}, [Points(sample=dict(truth=sample["labels"]), predicted=labels, classes=len(data.classes))]
            )
            known = sample["labels"] >= 0
            said += f"  {(labels == sample['labels'])[known].mean():.4f} of points right" if known.any() else ""
        print(f"{number + 1}/{len(data)} {printable(name)}  {len(labels)} points  {said}", flush=True)
    if metric.results:
        values = metric.compute_metrics(metric.results)
        print(metric.views(None, data.classes))
        print(f"with voting: {as_line(values, {name: metric.quantity(name) for name in values})}")
        atomic.write(out / "results.json", json.dumps(dict(test=values, voting=13), indent=1) + "\n")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("--out", metavar="DIR", type=Path, help="a file for each scene or object; gone on from there")
    parser.add_argument("--submit", metavar="DIR", type=Path, help="scenes: files for ScanNet's benchmark server")
    parser.add_argument("--batch", type=int, default=4, help="scenes: fragments at a time (4)")
    parser.add_argument("--repeats", type=int, default=1, help="objects: how often ten votes are taken (1)")
    given = parser.parse_args(arguments)
    cfg = config_from(given, ["test"])
    content = checkpoint.load(given.checkpoint)
    model = build_model(cfg, known=content.get("classes")).eval()
    checkpoint.load_weights(model, content, given.checkpoint)
    prepare_data(cfg, given.sample)
    loader = build_loader(cfg, "test", content.get("classes", ()))
    check_classes(model, loader)
    same_data.warn(content, loader.data, given.checkpoint)
    out: Path | None = given.out
    if isinstance(model.head, TokenSegmenter) and out is None:
        raise DataError("scenes take long: --out names the folder that keeps the predictions of each")
    if given.repeats < 1:
        raise DataError(f"--repeats is 1 or more, got {given.repeats}")
    if out is not None:
        output.folder(out, "--out")
        of = dict(model=cfg.model, transforms=cfg.test_dataloader.dataset.transforms)
        voting.prepare_folder(out, given.checkpoint, of | (dict(repeats=given.repeats) if given.repeats > 1 else {}))
    if isinstance(model.head, TokenSegmenter) and out is not None:
        labels = scenes(model, loader.data, METRICS.create(cfg.metrics[0]), out, given.batch)
        if given.submit is not None:
            voting.submit(given.submit, loader.data, labels)
            print(f"{given.submit}: {len(labels)} files")
    elif isinstance(model.head, Classifier):
        print(objects(model, loader.data, given.repeats, out))
    else:
        raise DataError(
            f"voting is for a TokenSegmenter or a Classifier of point clouds, not for {type(model.head).__name__}"
        )


if __name__ == "__main__":
    run(main)
