"""What the data of a config use of its encodings: measured on a few batches, as a table and as a picture."""

import argparse
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import Config

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.encoding.coverage import Coverage, Span
from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.calibration import fitted
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.text import as_argument
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument
from ndformer.framework.engine.training.first_batch import seen_by
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.figures import new_figure
from ndformer.framework.system import atomic

SAMPLES = 8  # of a batch


def told(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> None:
    """A program that says it and draws it."""
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--batches", type=int, default=4, help=f"of up to {SAMPLES} samples to measure (4)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the picture (coverage_ENCODING.png)")
    given = parser.parse_args(arguments)
    if given.batches < 1:
        raise DataError(f"--batches is 1 or more, got {given.batches}")
    cfg = config_from(given, [given.split])
    encoding = cfg.model.backbone.get("encoding")
    out = given.out or file_of(encoding)
    output.ready(out, output.PICTURES)
    if given.encoding is not None:
        own = load(given.config, sample=given.sample, trusted=given.trust_config).model.backbone.get("encoding")
        print(f"{as_argument(encoding)}, in place of the config's {as_argument(own)}")
    prepare_data(cfg, given.sample)
    found = looks(cfg, given.split, given.batches)
    print("\n\n".join(text(look) for look in found))
    if any(look.found for look in found):
        draw(out, found)
        print(f"\n{out}")


class Look(NamedTuple):
    """At one encoding of a model."""

    name: str  # "AxialRoPE (backbone.encoding)"
    span: Span  # of positions times its position_scale
    found: list[Coverage]


def looks(cfg: Config, split: str, batches: int) -> list[Look]:
    """At all encodings of the untrained model, on so many batches of a split."""
    cfg, _ = fitted(cfg)
    loader = cfg[f"{split}_dataloader"]
    loader.num_workers, loader.batch_size = 0, min(SAMPLES, loader.batch_size)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = build_model(cfg).eval()
        with seen_by(model) as seen:
            for batch in itertools.islice(build_loader(cfg, split), batches):
                model.features(model.at_home(batch)["inputs"])
        names = {module: name for name, module in model.named_modules()}
        found = []
        for encoding, wheres in seen.items():
            span = Span.of(wheres, encoding.factors)
            if span is not None:
                name = f"{type(encoding).__name__} ({names[encoding]})"
                found.append(Look(name, span, encoding.coverage(wheres)))
    if not found:
        raise DataError(f"no sample of these batches of {split} has two tokens at different places")
    return found


def text(look: Look) -> str:
    """A line for each kind of things, and a warning for each thing to set."""
    apart = " x ".join(f"{step:.3g}" for step in look.span.step)
    extent = " x ".join(f"{extent:.3g}" for extent in look.span.extent)
    lines = [f"{look.name}: tokens are {apart} apart, a sample spans up to {extent}"]
    wide = max((len(one.what) for one in look.found), default=0)
    for one in look.found:
        short, used, long = one.counts
        ends = f"of length {min(one.lengths):.3g} to {max(one.lengths):.3g}"
        unused = [f"{n} {why}" for n, why in zip((short, long), one.why) if n]
        told = [f"  {one.what:{wide}}  {used:4} of {len(one.lengths):<4} used, {ends}", *unused]
        lines.append("; ".join([*told, one.note] if one.note else told))
    if not look.found:
        lines.append("  it does not say what it covers")
    return "\n".join(lines + [f"warning: {said}" for one in look.found for said in one.warnings])


def file_of(encoding: Any) -> Path:
    """coverage_PaPE-m-50.png: of another encoding, or with other options, it is another one."""
    said = re.sub(r"[^\w.]+", "-", as_argument(encoding)).strip("-")
    return Path(f"coverage_{said[:80]}.png")


def draw(path: Path, found: Sequence[Look]) -> None:
    """A line for each kind of things, by their lengths; grey is from one token to the next and up to the extent."""
    kinds = [(look, one) for look in found for one in look.found]
    with new_figure(8, 1.4 + 0.45 * len(kinds), "what the data use of the encodings") as figure:
        axis = figure.subplots()
        for y, (look, one) in enumerate(kinds):
            reach = math.hypot(*look.span.extent)
            axis.fill_betweenx([y - 0.35, y + 0.35], min(look.span.step), reach, color="0.9", lw=0)
            for name, colour, chosen in (
                ("too short", "C3", [n for n in one.lengths if n < one.short]),
                ("used", "C2", [n for n in one.lengths if one.short <= n <= one.long]),
                ("too long", "C1", [n for n in one.lengths if n > one.long]),
            ):
                axis.plot(chosen, [y] * len(chosen), "|", color=colour, ms=12, label=name if y == 0 else None)
        axis.set_xscale("symlog", linthresh=min(min(look.span.step) for look in found))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        several = len(found) > 1
        axis.set_yticks(range(len(kinds)), [f"{look.name}: {one.what}" if several else one.what for look, one in kinds])
        axis.set_ylim(len(kinds) - 0.5, -0.5)
        axis.set_xlabel("length, in the encoding's own unit (grey: from one token to the next up to the extent)")
        figure.legend(loc="outside right upper")
    with atomic.whole(path) as half:
        figure.savefig(half)
