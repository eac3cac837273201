"""Test as the published protocols do: several looks at each cloud vote.

tools/vote.py configs/scannet_pape.py work_dirs/scannet_pape/best.pth --out votes      13 x fragments; can be resumed
tools/vote.py configs/scannet_pape.py BEST --out votes --submit upload \\
    --cfg-options test_dataloader.dataset.test_on=test                                  files for the benchmark's server
tools/vote.py configs/modelnet40_pape.py work_dirs/modelnet40_pape/best.pth             10 votes, repeated

Prints the figures of voting. Those without it are tools/test.py's. Repeats of ModelNet40's voting are reported as mean
and spread, never as the best of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.engine.building import build_model, check_classes, prepare_data
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, run
from ndformer.framework.engine.run import as_line, build_loader
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.heads.token_segmenter import TokenSegmenter
from ndformer.framework.registry import METRICS
from ndformer.modalities.pointcloud.datasets.scenes import SCANNET
from ndformer.modalities.pointcloud.voting import object_votes, scene_votes


def about(path: Path, cfg: Any) -> dict[str, str]:
    """What predictions are a function of."""
    model, transforms = (
        json.dumps(part, default=list, sort_keys=True) for part in (cfg.model, cfg.test_dataloader.dataset.transforms)
    )
    return dict(checkpoint=hashlib.sha256(path.read_bytes()).hexdigest(), model=model, transforms=transforms)


def ready(folder: Path, content: dict[str, str]) -> None:
    """A folder for predictions of this checkpoint, and of no other."""
    output.folder(folder, "--out")
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "about.json"
    if kept.is_file() and json.loads(kept.read_text(encoding="utf-8")) != content:
        raise DataError(f"{folder} holds predictions of another checkpoint or config: name another folder with --out")
    kept.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def names(data: Any) -> list[str]:
    """What the files of scenes are called: as their folders, with the way there where several have one name."""
    paths = [Path(data.name(i)) for i in range(len(data))]
    short = [path.name for path in paths]
    if len(set(short)) == len(short):
        return short
    return [os.path.relpath(path, data.data_root).replace(os.sep, "_") for path in paths]


def scenes(model: Any, data: Any, metric: Any, out: Path, batch: int) -> list[np.ndarray]:
    """The labels (N,) of every scene, from the file of it or else predicted and written there; prints the figures."""
    found = []
    for number, (record, name) in enumerate(zip(data.records, names(data))):
        file, begin = out / f"{name}.npy", time.perf_counter()
        sample = data.read(record)
        there = file.is_file()
        if not there:
            labels = scene_votes(model, sample, data.transforms, batch).argmax(1).astype(np.int16)
            beside = file.with_name(f".{file.name}.writing")
            with beside.open("wb") as stream:
                np.save(stream, labels)
            beside.replace(file)
        found.append(np.load(file).astype(np.int64))
        if len(found[-1]) != len(sample["points"]):
            raise DataError(
                f"{file} has labels of {len(found[-1])} points, and the scene of that name {len(sample['points'])}: "
                "it is of other data, name another folder with --out"
            )
        said = "was there" if there else f"{time.perf_counter() - begin:.1f} s"
        if "labels" in sample:
            metric.process({}, [dict(truth=sample["labels"], predicted=found[-1], classes=len(data.classes))])
            known = sample["labels"] >= 0
            said += f"  {(found[-1] == sample['labels'])[known].mean():.4f} of points right" if known.any() else ""
        print(f"{number + 1}/{len(data)} {file.stem}  {len(found[-1])} points  {said}", flush=True)
    if metric.results:
        values = metric.compute_metrics(metric.results)
        print(metric.views(None, data.classes))
        print(f"with voting: {as_line(values)}")
        (out / "results.json").write_text(json.dumps(dict(test=values, voting=13), indent=1) + "\n", encoding="utf-8")
    return found


def submit(folder: Path, data: Any, labels: Sequence[np.ndarray]) -> None:
    """A text for each scene, with the NYU40 number of every point on a line, as ScanNet's server takes them."""
    if list(data.classes) != list(SCANNET):
        raise DataError("--submit writes ScanNet's 20 classes, and this dataset has others")
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.array(list(SCANNET.values()))
    for name, found in zip(names(data), labels):
        np.savetxt(folder / f"{name}.txt", numbers[found], fmt="%d")
    print(f"{folder}: {len(labels)} files")


def objects(model: Any, data: Any, repeats: int) -> None:
    right = []  # per object, per repeat
    for i, record in enumerate(data.records):
        sample = data.read(record) | dict(index=i)
        votes = object_votes(model, sample, data.transforms, repeats, data.seed)
        right.append([int(vote.argmax()) == data.labels[i] for vote in votes])
    accuracy = np.mean(right, axis=0)
    spread = f" sd {accuracy.std(ddof=1):.4f}, {accuracy.min():.4f} to {accuracy.max():.4f}" if repeats > 1 else ""
    print(f"with voting: accuracy {accuracy.mean():.4f},{spread} over {repeats} repeats of 10 votes")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    config_arguments(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("--out", metavar="DIR", type=Path, help="scenes: a file of labels for each; gone on from there")
    parser.add_argument("--submit", metavar="DIR", type=Path, help="scenes: files for ScanNet's benchmark server")
    parser.add_argument("--batch", type=int, default=4, help="scenes: fragments at a time (4)")
    parser.add_argument("--repeats", type=int, default=10, help="objects: how often ten votes are taken (10)")
    given = parser.parse_args(arguments)
    cfg = config_from(given)
    model = build_model(cfg).eval()
    checkpoint.load_weights(model, checkpoint.load(given.checkpoint), given.checkpoint)
    prepare_data(cfg, given.sample)
    loader = build_loader(cfg, "test")
    check_classes(model, loader)
    if isinstance(model.head, TokenSegmenter):
        if given.out is None:
            raise DataError("scenes take long: --out names the folder that keeps the predictions of each")
        ready(given.out, about(given.checkpoint, cfg))
        labels = scenes(model, loader.data, METRICS.create(cfg.metrics[0]), given.out, given.batch)
        if given.submit is not None:
            submit(given.submit, loader.data, labels)
    elif isinstance(model.head, Classifier):
        if given.repeats < 1:
            raise DataError(f"--repeats is 1 or more, got {given.repeats}")
        objects(model, loader.data, given.repeats)
    else:
        raise DataError(
            f"voting is for a TokenSegmenter or a Classifier of point clouds, not for {type(model.head).__name__}"
        )


if __name__ == "__main__":
    run(main)
