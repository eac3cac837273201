"""Give hostile files to all readers and programs, in processes that are watched.

python -m tests.soak.foreign       crafted files of each kind, damaged files, weights; prints a table of kinds
python -m tests.soak.foreign --kinds video hdf5
python -m tests.soak.foreign --kinds "damaged set" --mutations 10000

None may execute code, start a program, open another file, use the network, crash, hang, or take 1 GiB more memory. Each
must be read or end with an error of one line.
"""

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ndformer.framework.data.describe import describe
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.foreign.weights import load_tensors
from ndformer.modalities.video.formats.files import VideoFile
from tests.modalities.events.conftest import WRITERS
from tests.soak import driven, fuzz, fuzz_events, fuzz_video
from tests.soak.hostile import crafted, sides
from tests.soak.hostile_checkpoints import checkpoints
from tests.soak.watched import ROOT, Watch, judged, prepare

EACH = 6  # of the crafted videos, which differ little, one is given to the programs


Table = dict[str, Counter[str]]


class Case(NamedTuple):
    kind: str
    name: str
    call: Callable[[], object]


def cases(folder: Path, outside: Path, mutations: int, pictures: int, wanted: Callable[[str], bool]) -> Iterator[Case]:
    """Files are made when their turn comes: together they fill a disk."""
    kinds: dict[str, list[tuple[str, driven.Content]]] = defaultdict(list)
    for kind, name, made in itertools.chain(crafted(outside, wanted), sides(pictures) if wanted("sides") else ()):
        kinds[kind].append((name, made))
    for kind, files in kinds.items():
        home = folder / kind
        home.mkdir()
        for number, (name, made) in enumerate(files):
            path = home / str(number) / name
            path.parent.mkdir()
            driven.placed(path, made)
            yield Case(kind, f"peek {name}", driven.peeked(path))
            if kind in driven.MODELS and (kind != "video" or number % EACH == 0):
                yield Case(kind, f"predict {name}", driven.predicted(kind, path, folder))
            if kind == "video":
                yield Case(kind, f"decord {name}", lambda path=path: VideoFile(path, "decord").frames([0, 1]))
            if kind == "sides":
                for config in driven.CHAINS:
                    yield Case(kind, f"{config} {name}", driven.transformed(config, path))
            driven.cleared(path)
        for name, call in driven.sets(kind, files[:: EACH if kind in ("video", "sides") else 1], home):
            yield Case(kind, name, call)
    yield from damaged(folder, mutations, wanted)
    if wanted("weights"):
        yield from of_weights(folder, outside)
    yield from of_folders(folder, outside, wanted)


def damaged(folder: Path, mutations: int, wanted: Callable[[str], bool]) -> Iterator[Case]:
    """Files with a few changed bytes, up to 100 in each process."""
    readers = dict[str, dict[str, Callable[[range, Path], object]]]()
    readers["damaged set"] = {name: partial(fuzz.fuzz, name) for name in fuzz.READERS}
    readers["damaged events"] = {name: partial(fuzz_events.fuzz, name) for name in WRITERS}
    readers["damaged video"] = dict(containers=fuzz_video.fuzz)
    for kind in filter(wanted, readers):
        for name, read in readers[kind].items():
            for start in range(0, mutations, 100):
                numbers, place = range(start, min(start + 100, mutations)), folder / f"{name} {start}"
                place.mkdir()
                yield Case(kind, place.name, partial(read, numbers, place))


def of_weights(folder: Path, outside: Path) -> Iterator[Case]:
    home, root = folder / "weights", folder / "pictures"
    home.mkdir()
    root.mkdir()
    one = driven.SETS["picture"][0]
    one.write(root)
    good = driven.weights(one.config, home / "good.pth")
    for name, content in checkpoints(good, outside):
        path = home / name
        for told, call in driven.given_weights(content, path, root, home):
            yield Case("weights", told, call)
        yield Case("weights", f"load {name}", lambda path=path: checkpoint.load(path))
        yield Case("weights", f"anyone's {name}", lambda path=path: load_tensors(path))


def of_folders(folder: Path, outside: Path, wanted: Callable[[str], bool]) -> Iterator[Case]:
    """Configs beside weights, and what is no file."""
    home, image = folder / "folders", folder / "photo.png"
    home.mkdir()
    driven.picture(image)
    good = driven.weights("imagefolder_pape", folder / "whole.pth")
    for name, call in driven.configs(good, image, home, outside) if wanted("config") else ():
        yield Case("config", name, call)
    for name, call in driven.no_files(good, image, home) if wanted("no file") else ():
        yield Case("no file", name, call)


def run(
    wanted: Callable[[str], bool], mutations: int, pictures: int, tell: Callable[[str], object]
) -> tuple[Table, list[str]]:
    """Outcomes by kind, and a line for each that must not be."""
    prepare()
    with contextlib.suppress(DataError):
        describe(ROOT / "none", 1)  # imports what a case would
    table, bad = defaultdict[str, Counter[str]](Counter), list[str]()
    with tempfile.TemporaryDirectory() as inside, tempfile.TemporaryDirectory() as outer:
        if wanted("events"):
            driven.warm(Path(inside))
        outside = Path(outer)
        (outside / "secret").write_bytes(bytes(64))
        os.mkfifo(outside / "pipe")
        watch = Watch(outside)
        for case in cases(Path(inside), outside, mutations, pictures, wanted):
            watch.seen()  # what writing it opened
            told = judged(case.call, Path(inside))
            told += " OUTSIDE" * watch.seen()
            outcome = told if told in ("read", "said") else "bad"
            table[case.kind][outcome] += 1
            if outcome == "bad":
                bad.append(f"{case.kind}, {case.name!r}: {told}")
                tell(bad[-1])
            if sum(map(Counter.total, table.values())) % 100 == 0:
                tell(f"... {sum(map(Counter.total, table.values()))}, at {case.kind}")
    return table, bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=100, help="damaged files of each reader and format")
    parser.add_argument("--sides", type=int, default=60, help="pictures of extreme sides")
    parser.add_argument("--kinds", nargs="+", help="these alone, as the table has them")
    given = parser.parse_args()
    begin = time.monotonic()
    wanted = lambda kind: given.kinds is None or kind in given.kinds
    table, bad = run(wanted, given.mutations, given.sides, lambda line: print(line, flush=True))
    print(f"{'kind':24}{'said':>6}{'read':>6}{'bad':>6}")
    for kind, tally in table.items():
        print(f"{kind:24}{tally['said']:6}{tally['read']:6}{tally['bad']:6}")
    print(f"{sum(t.total() for t in table.values())} in {time.monotonic() - begin:.0f} s, {len(bad)} of them bad")
    sys.exit(1 if bad or not table else 0)


if __name__ == "__main__":
    main()
