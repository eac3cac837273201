"""Damage checkpoints: each flipped bit and each cut end is detected, or leaves the content as it was.

python -m tests.soak.flips --flips 1000 --cuts 200      of last.pth, best.pth and exported weights together
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.errors import DataError
from tests.soak.tiny import config, register, unequal, whole_run

RELEASED = Path(__file__).parents[1] / "fixtures" / "released"  # without digests


def made(folder: Path) -> list[Path]:
    """Return the checkpoints of a run, and its best weights as an exported file."""
    register()
    whole_run(config(train_cfg=dict(max_epochs=2)), folder)
    weights = folder / "weights.safetensors"
    exported.export(weights, checkpoint.load(folder / checkpoint.BEST))
    return [folder / checkpoint.LAST, folder / checkpoint.BEST, weights]


def damages(content: bytes, flips: int, cuts: int, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Flip bits anywhere, and as many in the last 4 KB, where a zip has its directory; cut off ends anywhere."""
    for i in range(flips):
        at = rng.randrange(8 * max(0, len(content) - 4096) if i % 2 else 0, 8 * len(content))
        damaged = bytearray(content)
        damaged[at // 8] ^= 1 << at % 8
        yield f"bit {at % 8} of byte {at // 8}", bytes(damaged)
    for i in range(cuts):
        end = rng.randrange(len(content) - min(200, len(content)) if i % 2 else 0, len(content))
        yield f"cut at byte {end}", content[:end]


def outcome(path: Path, before: dict[str, Any]) -> str:
    """Return "noticed", "harmless", or an error."""
    try:
        found = checkpoint.load(path)
    except DataError:
        return "noticed"
    except Exception as error:
        return f"a traceback: {type(error).__name__}: {error}"
    return "other content" if unequal(found, before) else "harmless"


def series(path: Path, flips: int, cuts: int, rng: random.Random, folder: Path) -> tuple[Counter[str], list[str]]:
    """Count the outcomes, and list the damages that were not handled."""
    content, before = path.read_bytes(), checkpoint.load(path)
    damaged = folder / f"damaged{path.suffix}"
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for what, half in damages(content, flips, cuts, rng):
        damaged.write_bytes(half)
        said = outcome(damaged, before)
        counts[said.partition(":")[0]] += 1
        if said not in ("noticed", "harmless"):
            wrong.append(f"{path.name}, {what}: {said}")
    return counts, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rng, wrong = random.Random(given.seed), []
    with tempfile.TemporaryDirectory() as name:
        paths = made(Path(name) / "run")
        share = len(paths)
        for path in [*paths, RELEASED / checkpoint.LAST, RELEASED / checkpoint.BEST]:
            begin = time.perf_counter()
            counts, bad = series(path, -(-given.flips // share), -(-given.cuts // share), rng, Path(name))
            old = " (of before there were digests)" if path.parent == RELEASED else ""
            seconds = time.perf_counter() - begin
            print(f"{path.name}{old}, {path.stat().st_size} bytes: {json.dumps(counts)} in {seconds:.0f} s", flush=True)
            wrong += bad
    print("\n".join(wrong) or "0 other weights")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
