"""Read damaged event files: the reader must raise a DataError of one line or return the events before the damage."""

import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.files import read_events
from ndformer.modalities.events.formats.stream import Events
from tests.modalities.events.conftest import WRITERS, random_events
from tests.soak.fuzz import mutated

SECONDS = 5.0  # of processor time that a file may take


def read(path: Path) -> Events:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return read_events(path)


def attempt(path: Path, seed: tuple[int, ...]) -> Literal["read", "said"]:
    """Read a damaged copy and return the outcome. Raises AssertionError if it is wrong."""
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


def fuzz(name: str, numbers: Iterable[int], folder: Path) -> Counter[str]:
    """Read damaged files of one format. A number is the seed of its damage."""
    path, tally = folder / name, Counter[str]()
    WRITERS[name](path, random_events(40))
    for number in numbers:
        try:
            tally[attempt(path, (0, number))] += 1
        except BaseException as error:
            raise AssertionError(f"number {number}, {name}: {error!r}") from error
    return tally
