"""Description of a recording in numbers."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.describe import BEGINNING, CONTENT, NO, Describer, Description, true_sentences
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.events.formats import nmnist_bin, text
from ndformer.modalities.events.formats.files import ENDINGS, MARKS, detect_format, read_events
from ndformer.modalities.events.formats.stream import Events

UNMARKED = {".bin": nmnist_bin.is_recording, ".txt": text.is_recording, ".csv": text.is_recording}


@DESCRIBERS.register_module()
class Recording(Describer):
    endings = ENDINGS

    def claim(self, path: Path, begin: bytes) -> int:
        unmarked = UNMARKED.get(path.suffix.lower())
        if unmarked is not None:  # endings of other formats too
            empty = (
                begin == b"" and path.is_file() and path.suffix.lower() == ".bin"
            )  # an N-MNIST recording without events
            return CONTENT if empty or unmarked(begin) else NO
        return super().claim(path, begin) or (BEGINNING if begin.startswith(tuple(MARKS)) else NO)

    def describe(self, path: Path, rows: int) -> Description:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            events = read_events(path)
        odd = [str(warning.message).removeprefix(f"{path} ") for warning in caught]
        facts: dict[str, Any] = dict(format=detect_format(path), events=len(events))
        facts |= dict(height=events.height, width=events.width)
        if len(events):
            span = int(events.t.max() - events.t.min())
            facts |= dict(start_us=int(events.t[0]), end_us=int(events.t[-1]), seconds=span / 1e6)
            facts |= dict(events_per_second=round(len(events) * 1e6 / span) if span else None)
            facts |= dict(positive_share=round(float((events.p > 0).mean()), 4))
            facts |= {axis: [int(getattr(events, axis).min()), int(getattr(events, axis).max())] for axis in "xy"}
        first = [dict(zip("xytp", row)) for row in zip(*(getattr(events, name)[:rows].tolist() for name in "xytp"))]
        return facts, odd + oddities(events), first


def oddities(events: Events) -> list[str]:
    if len(events) == 0:
        return ["it holds no events"]
    back, gap = int((np.diff(events.t) < 0).sum()), int(np.diff(events.t).max(initial=0))
    outside, highest = int((~events.on_sensor).sum()), events.p.max()
    pixels, often = np.unique(events.y.astype(np.int64) << 16 | events.x, return_counts=True)
    y, x = divmod(int(pixels[often.argmax()]), 1 << 16)
    stuck = len(events) >= 1000 and often.max() > 0.05 * len(events)
    return true_sentences(
        {
            f"time goes back {back} times: put .ordered() after reading it": back,
            f"{outside} events lie outside of the sensor of {events.height} x {events.width}": outside,
            f"all polarities are {highest}": events.p.min() == highest,
            f"polarities reach to {highest}": highest > 1,
            f"the pixel at row {y}, column {x} has {often.max()} of all events: it may be stuck": stuck,
            f"nothing happens for {gap / 1e6:.1f} s": gap > 1_000_000,
        }
    )
