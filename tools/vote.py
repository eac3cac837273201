#!/usr/bin/env python
"""Test point clouds with votes over several augmented views, as published protocols do.

    ndformer vote configs/scannet_pape.py work_dirs/scannet_pape/best.pth --out votes  13 x fragments; can be resumed
    ndformer vote configs/scannet_pape.py BEST --out votes --submit upload \\
        --cfg-options test_dataloader.dataset.test_on=test                          files for the benchmark server
    ndformer vote configs/modelnet40_pape.py BEST --out votes                        10 votes; can be resumed
    ndformer vote configs/modelnet40_pape.py BEST --repeats 10                       10 votes, ten times

It prints the metrics with voting, and the progress every few seconds; ndformer test prints the metrics without voting.
Repeats of ModelNet40's voting are reported as mean and standard deviation, not as the best; each takes equally long.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ndformer.cli import output
from ndformer.cli.program import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.answers.label import Label
from ndformer.framework.answers.pixels import Points
from ndformer.framework.answers.tables import write_table
from ndformer.framework.data.fingerprint import warn_changed_data
from ndformer.framework.engine.building import build_model, check_classes, prepare_data
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.evaluate import as_line
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable
from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.heads.token_segmenter import TokenSegmenter
from ndformer.framework.registry import METRICS
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud import voting

PRINT_EVERY = 5.0  # seconds


class ProgressPrinter:
    """Prints progress and remaining time every few seconds."""

    def __init__(self) -> None:
        self.begin = self.printed = time.monotonic()

    def __call__(self, label: str, share: float) -> None:
        now = time.monotonic()
        if now - self.printed >= PRINT_EVERY and 0 < share < 1:
            self.printed = now
            left = (now - self.begin) * (1 - share) / share
            print(
                f"{label}: {share:.0%}, about {f'{left / 60:.0f} min' if left > 90 else f'{left:.0f} s'} left",
                flush=True,
            )


def objects(model: Any, data: Any, repeats: int, out: Path | None) -> str:
    """Evaluate vote_objects with voting; return the metrics as text, and write the predictions to a table."""
    answers, right, progress = [], [], ProgressPrinter()
    for number, (sample, votes) in enumerate(voting.vote_objects(model, data, repeats, out)):
        truth = int(data.labels[number])
        right.append(votes.argmax(1) == truth)
        metadata = dict(path=str(sample.get("path", data.name(number))), label=truth)
        answers.append(Label(sample=metadata, scores=torch.from_numpy(votes.sum(0) / votes.sum()).float()))
        progress(f"{number + 1}/{len(data)} objects, accuracy so far {np.mean(right):.4f}", (number + 1) / len(data))
    accuracy = np.mean(right, axis=0)
    text = f"with voting: accuracy {accuracy.mean():.4f}"
    if repeats > 1:
        text += f", sd {accuracy.std(ddof=1):.4f}, {accuracy.min():.4f} to {accuracy.max():.4f} over {repeats} repeats"
        text += " of 10 votes"
    if out is not None:
        write_table(out / "predictions.csv", answers, data.classes)
        values = dict(accuracy=float(accuracy.mean()), repeats=accuracy.tolist())
        atomic.write(out / "results.json", json.dumps(dict(test=values, voting=10), indent=1) + "\n")
        text += f"\n{out / 'predictions.csv'}"
    return text


def scenes(model: Any, data: Any, metric: Any, out: Path, batch: int) -> list[np.ndarray]:
    """Evaluate scenes with voting; print the metrics, and return the labels (N,) of each."""
    predicted, progress = [], ProgressPrinter()
    on_progress = lambda name, share: progress(
        f"{len(predicted) + 1}/{len(data)} {printable(name)}", (len(predicted) + share) / len(data)
    )
    for number, (name, sample, labels, seconds) in enumerate(voting.vote_scenes(model, data, out, batch, on_progress)):
        predicted.append(labels)
        note = "was saved before" if seconds is None else f"{seconds:.1f} s"
        if "labels" in sample:
            metric.process(
                {}, [Points(sample=dict(truth=sample["labels"]), predicted=labels, classes=len(data.classes))]
            )
            labeled = sample["labels"] >= 0
            note += f"  {(labels == sample['labels'])[labeled].mean():.4f} of points right" if labeled.any() else ""
        print(f"{number + 1}/{len(data)} {printable(name)}  {len(labels)} points  {note}", flush=True)
    if metric.results:
        values = metric.compute_metrics(metric.results)
        print(metric.views(None, data.classes))
        print(f"with voting: {as_line(values, {name: metric.quantity(name) for name in values})}")
        atomic.write(out / "results.json", json.dumps(dict(test=values, voting=13), indent=1) + "\n")
    return predicted


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder for a file per sample; a second start resumes")
    parser.add_argument("--submit", metavar="DIR", type=Path, help="scenes: files for ScanNet's benchmark server")
    parser.add_argument("--batch", type=int, default=4, help="scenes: fragments per batch (4)")
    parser.add_argument("--repeats", type=int, default=1, help="objects: repeats of the ten votes (1)")
    args = parser.parse_args(arguments)
    cfg = config_from(args, ["test"])
    content = checkpoint.load(args.checkpoint)
    model = build_model(cfg, class_names=content.get("classes")).eval()
    checkpoint.load_weights(model, content, args.checkpoint)
    prepare_data(cfg, args.sample)
    loader = build_loader(cfg, "test", content.get("classes", ()))
    check_classes(model, loader)
    warn_changed_data(content, loader.data, args.checkpoint)
    out: Path | None = args.out
    if isinstance(model.head, TokenSegmenter) and out is None:
        raise DataError(
            "--out: expected a folder for the predictions of each scene, got none, and voting on scenes takes long"
        )
    is_scene = isinstance(model.head, TokenSegmenter)
    if (args.submit is not None and not is_scene) or (args.repeats != 1 and is_scene):
        raise DataError("--submit is for scenes, --repeats for objects: leave the other one out")
    if args.repeats < 1:
        raise DataError(f"--repeats: expected 1 or more, got {args.repeats}")
    if out is not None:
        output.folder(out, "--out")
        settings = dict(model=cfg.model, transforms=cfg.test_dataloader.dataset.transforms)
        voting.prepare_folder(out, args.checkpoint, settings | (dict(repeats=args.repeats) if args.repeats > 1 else {}))
    if isinstance(model.head, TokenSegmenter) and out is not None:
        labels = scenes(model, loader.data, METRICS.create(cfg.metrics[0]), out, args.batch)
        if args.submit is not None:
            voting.submit(args.submit, loader.data, labels)
            print(f"{args.submit}: {len(labels)} files")
    elif isinstance(model.head, Classifier):
        print(objects(model, loader.data, args.repeats, out))
    else:
        raise DataError(f"expected a TokenSegmenter or a Classifier of point clouds, got {type(model.head).__name__}")


if __name__ == "__main__":
    run(main)
