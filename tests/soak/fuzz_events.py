"""Damaged files of events: one sentence, or what comes before the damage, equal to the original's.

python -m tests.soak.fuzz_events --count 10000     files of each format, read in a process that may die
python -m tests.soak.fuzz_events --formats a.aedat h.h5 --seed 3
"""

import argparse
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.files import read_events
from ndformer.modalities.events.formats.stream import Events
from tests.modalities.events.conftest import WRITERS, random_events
from tests.soak.fuzz import mutated

CHUNK = 500
SECONDS = 5.0  # of the processor, that no file may take


def read(path: Path) -> Events:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return read_events(path)


def attempt(path: Path, seed: int | tuple[int, ...]) -> Literal["read", "said"]:
    """What becomes of a damaged copy; AssertionError where that is wrong."""
    original = path.read_bytes()
    content = mutated(original, np.random.default_rng(seed))
    alike = next((i for i, (a, b) in enumerate(zip(original, content)) if a != b), min(len(original), len(content)))
    copy, before = path.with_name("damaged_" + path.name), path.with_name("before_" + path.name)
    before.write_bytes(original[:alike])
    copy.write_bytes(content)
    start = time.process_time()
    found = error = None
    try:
        found = read(copy)
    except DataError as caught:
        error = str(caught)
    taken = time.process_time() - start
    assert taken < SECONDS, f"took {taken:.1f} s"
    if found is None:
        assert "\n" not in str(error), f"not one line: {error}"
        return "said"
    try:
        whole = read(before)
    except DataError:
        return "read"  # the damage is in the header, or the format has its contents anywhere, as HDF5
    assert len(found) >= len(whole), f"{len(found)} events, {len(whole)} before the damage"
    for name in "xytp":
        assert np.array_equal(getattr(found, name)[: len(whole)], getattr(whole, name)), name
    return "read"


def fuzz(name: str, numbers: range, seed: int, folder: Path) -> Counter[str]:
    """The files of some numbers of one format."""
    path, tally = folder / name, Counter[str]()
    WRITERS[name](path, random_events(40))
    for n in numbers:
        try:
            tally[attempt(path, (seed, n))] += 1
        except BaseException as error:
            raise AssertionError(f"number {n} of seed {seed}, {name}: {error!r}") from error
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="damaged files of each format")
    parser.add_argument("--formats", nargs="+", choices=list(WRITERS), default=list(WRITERS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in given.formats:
        total, started = Counter[str](), time.monotonic()
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(max_workers=1) as process:
            for begin in range(0, given.count, CHUNK):
                numbers = range(begin, min(begin + CHUNK, given.count))
                total += process.submit(fuzz, name, numbers, given.seed, Path(folder)).result()
        told = ", ".join(f"{what} {count}" for what, count in sorted(total.items()))
        print(f"{name}: {total.total()} files in {time.monotonic() - started:.0f} s: {told}", flush=True)


if __name__ == "__main__":
    main()
