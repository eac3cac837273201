"""What the data of a config use of its encodings: measured on a few batches, as a table and as a picture."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.config import Config

from ndformer.framework.coverage import Coverage, Span
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.fitting import fitted
from ndformer.framework.engine.training.first_look import seen_by
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.figures import canvas

SAMPLES = 8  # of a batch


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
        lines.append("; ".join([f"  {one.what:{wide}}  {used:4} of {len(one.lengths):<4} used, {ends}", *unused]))
    if not look.found:
        lines.append("  it does not say what it covers")
    return "\n".join(lines + [f"warning: {said}" for one in look.found for said in one.warnings])


def draw(path: Path, found: Sequence[Look]) -> None:
    """A line for each kind of things, by their lengths; grey is from one token to the next and up to the extent."""
    kinds = [(look, one) for look in found for one in look.found]
    with canvas(8, 1.4 + 0.45 * len(kinds), "what the data use of the encodings") as figure:
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
    figure.savefig(path)
