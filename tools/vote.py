"""Test as the published protocols do: several looks at each cloud vote.

tools/vote.py configs/scannet_pape.py work_dirs/scannet_pape/best.pth --out votes      13 x fragments; can be resumed
tools/vote.py configs/scannet_pape.py BEST --out votes --submit upload \\
    --cfg-options test_dataloader.dataset.test_on=test                                  files for the benchmark's server
tools/vote.py configs/modelnet40_pape.py work_dirs/modelnet40_pape/best.pth             10 votes, repeated

Prints the figures of voting. Those without it are tools/test.py's. Repeats of ModelNet40's voting are reported as mean
and spread, never as the best of them.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.answers.points import Points
from ndformer.framework.engine.building import build_model, check_classes, prepare_data
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, run
from ndformer.framework.engine.run import as_line, build_loader
from ndformer.framework.engine.training import checkpoint, same_data
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable
from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.heads.token_segmenter import TokenSegmenter
from ndformer.framework.registry import METRICS
from ndformer.modalities.pointcloud import voting


def scenes(model: Any, data: Any, metric: Any, out: Path, batch: int) -> list[np.ndarray]:
    """The labels (N,) of every scene; prints the figures."""
    found = []
    for number, (name, sample, labels, seconds) in enumerate(voting.scenes(model, data, out, batch)):
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
        print(f"with voting: {as_line(values)}")
        (out / "results.json").write_text(json.dumps(dict(test=values, voting=13), indent=1) + "\n", encoding="utf-8")
    return found


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
    content = checkpoint.load(given.checkpoint)
    checkpoint.load_weights(model, content, given.checkpoint)
    prepare_data(cfg, given.sample)
    loader = build_loader(cfg, "test")
    check_classes(model, loader)
    same_data.warn(content, loader.data, given.checkpoint)
    if isinstance(model.head, TokenSegmenter):
        if given.out is None:
            raise DataError("scenes take long: --out names the folder that keeps the predictions of each")
        output.folder(given.out, "--out")
        of = dict(model=cfg.model, transforms=cfg.test_dataloader.dataset.transforms)
        voting.keep(given.out, given.checkpoint, of)
        labels = scenes(model, loader.data, METRICS.create(cfg.metrics[0]), given.out, given.batch)
        if given.submit is not None:
            voting.submit(given.submit, loader.data, labels)
            print(f"{given.submit}: {len(labels)} files")
    elif isinstance(model.head, Classifier):
        if given.repeats < 1:
            raise DataError(f"--repeats is 1 or more, got {given.repeats}")
        accuracy = voting.objects(model, loader.data, given.repeats)
        lo, hi = accuracy.min(), accuracy.max()
        spread = f" sd {accuracy.std(ddof=1):.4f}, {lo:.4f} to {hi:.4f}" if given.repeats > 1 else ""
        print(f"with voting: accuracy {accuracy.mean():.4f},{spread} over {given.repeats} repeats of 10 votes")
    else:
        raise DataError(
            f"voting is for a TokenSegmenter or a Classifier of point clouds, not for {type(model.head).__name__}"
        )


if __name__ == "__main__":
    run(main)
