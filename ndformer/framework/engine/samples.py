"""Generated stand-ins for datasets, written where a config looks for its data."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ndformer.framework.registry import SAMPLES


def make_sample(name: str, out: Path, seed: int = 0) -> None:
    """Complete or not at all: written beside `out` first, then renamed. Never into a folder that holds something."""
    write = SAMPLES.get(name)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} is not empty: name another folder with --out, or take it away")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as beside:
        partial = Path(beside) / out.name
        partial.mkdir()
        write(partial, seed)
        partial.replace(out)
