"""Coverage: which parts of a config's encodings its data uses, measured on batches, as a table and a picture."""

import argparse
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import Config

from ndformer.cli import output
from ndformer.cli.program import config_arguments, config_from, device_argument
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span
from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.text import as_argument
from ndformer.framework.engine.training.first_batch import record_positions
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.figures import new_figure, save_figure
from ndformer.framework.tokens import Where

SAMPLES = 8  # per batch


def main(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> None:
    """Run the program: print the table, and draw the picture."""
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("--split", choices=SPLITS, default="train", help="samples to measure (train)")
    parser.add_argument("--batches", type=int, default=4, help=f"batches to measure, of up to {SAMPLES} samples (4)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="picture to write (coverage_ENCODING.png)")
    args = parser.parse_args(arguments)
    if args.batches < 1:
        raise DataError(f"--batches: expected 1 or more, got {args.batches}")
    cfg = config_from(args, [args.split])
    encoding = cfg.model.backbone.get("encoding")
    out = args.out or default_file(encoding)
    output.ready(out, output.PICTURES)
    if args.encoding is not None:
        default = load(args.config, sample=args.sample, trusted=args.trust_config).model.backbone.get("encoding")
        print(f"{as_argument(encoding)}, in place of the config's {as_argument(default)}")
    prepare_data(cfg, args.sample)
    reports = measure(cfg, args.split, args.batches)
    print("\n\n".join(text(report) for report in reports))
    if any(report.coverages for report in reports):
        draw(out, reports)
        print(f"\n{out}")


class CoverageReport(NamedTuple):
    """The coverage of one encoding of a model."""

    name: str  # "AxialRoPE (backbone.encoding)"
    span: Span  # of positions times its position_scale
    coverages: list[Coverage]


def measure(cfg: Config, split: str, batches: int) -> list[CoverageReport]:
    """Measure the coverage of all encodings of the untrained model on batches of a split."""
    cfg, _ = calibrate(cfg)
    loader = cfg[f"{split}_dataloader"]
    loader.num_workers, loader.batch_size = 0, min(SAMPLES, loader.batch_size)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = build_model(cfg).eval()
        positions: defaultdict[PositionEncoding, list[Where]] = defaultdict(list)
        with record_positions(model, lambda encoding, where: positions[encoding].append(where)):
            for batch in itertools.islice(build_loader(cfg, split), batches):
                model.features(model.to_device(batch)["inputs"])
        names = {module: name for name, module in model.named_modules()}
        reports = []
        for encoding, wheres in positions.items():
            span = Span.measure(wheres, encoding.factors)
            if span is not None:
                name = f"{type(encoding).__name__} ({names[encoding]})"
                reports.append(CoverageReport(name, span, encoding.coverage(wheres)))
    if not reports:
        raise DataError(f"no sample of these batches of {split} has two tokens at different positions")
    return reports


def text(report: CoverageReport) -> str:
    """Return the table of an encoding: one line per kind of length, and the warnings."""
    steps = " x ".join(f"{step:.3g}" for step in report.span.step)
    extent = " x ".join(f"{extent:.3g}" for extent in report.span.extent)
    lines = [f"{report.name}: tokens are {steps} apart, a sample spans up to {extent}"]
    width = max((len(coverage.name) for coverage in report.coverages), default=0)
    for coverage in report.coverages:
        short, used, long = coverage.counts
        ends = f"of length {min(coverage.lengths):.3g} to {max(coverage.lengths):.3g}"
        unused = [f"{n} {why}" for n, why in zip((short, long), coverage.why) if n]
        parts = [f"  {coverage.name:{width}}  {used:4} of {len(coverage.lengths):<4} used, {ends}", *unused]
        lines.append("; ".join([*parts, coverage.note] if coverage.note else parts))
    if not report.coverages:
        lines.append("  this encoding does not report its coverage")
    return "\n".join(lines + [f"warning: {warning}" for coverage in report.coverages for warning in coverage.warnings])


def default_file(encoding: Any) -> Path:
    """Return the default picture, named after the encoding and its options: coverage_PaPE-m-50.png."""
    name = re.sub(r"[^\w.]+", "-", as_argument(encoding)).strip("-")
    return Path(f"coverage_{name[:80]}.png")


def draw(path: Path, reports: Sequence[CoverageReport]) -> None:
    """Draw the lengths of each kind on a line; gray is the range from token spacing to sample extent."""
    kinds = [(report, coverage) for report in reports for coverage in report.coverages]
    with new_figure(8, 1.4 + 0.45 * len(kinds), "coverage of the encodings by the data") as figure:
        axis = figure.subplots()
        for y, (report, coverage) in enumerate(kinds):
            diagonal = math.hypot(*report.span.extent)
            axis.fill_betweenx([y - 0.35, y + 0.35], min(report.span.step), diagonal, color="0.9", lw=0)
            for name, color, lengths in (
                ("too short", "C3", [n for n in coverage.lengths if n < coverage.short]),
                ("used", "C2", [n for n in coverage.lengths if coverage.short <= n <= coverage.long]),
                ("too long", "C1", [n for n in coverage.lengths if n > coverage.long]),
            ):
                axis.plot(lengths, [y] * len(lengths), "|", color=color, ms=12, label=name if y == 0 else None)
        axis.set_xscale("symlog", linthresh=min(min(report.span.step) for report in reports))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        several = len(reports) > 1
        labels = [f"{report.name}: {coverage.name}" if several else coverage.name for report, coverage in kinds]
        axis.set_yticks(range(len(kinds)), labels)
        axis.set_ylim(len(kinds) - 0.5, -0.5)
        axis.set_xlabel("length, in the encoding's unit (gray: from token spacing to sample extent)")
        figure.legend(loc="outside right upper")
    save_figure(path, figure)
