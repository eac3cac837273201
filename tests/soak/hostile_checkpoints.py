"""Make hostile checkpoints: damaged, with code, of wrong content, or larger in memory than on disk."""

import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.soak.fuzz import mutated


class Runs:
    """Creates a file when Python unpickles it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


def checkpoints(good: Path, outside: Path) -> Iterator[tuple[str, bytes | Callable[[Path], object]]]:
    """Yield the name of each checkpoint, and its content or a function that writes it."""
    whole = good.read_bytes()
    for n in range(20):
        yield f"damaged{n}.pth", mutated(whole, np.random.default_rng(n))
    shell = f"cos\nsystem\n(S'touch {outside}/ran'\ntR.".encode()
    for name, body in dict(shell=shell, memo=b"\x80\x02]", empty=b"", zip=b"PK\x05\x06").items():
        yield f"{name}.pth", body
    yield "runs.pth", lambda path: torch.save(dict(model={}, evil=Runs(outside / "ran")), path)
    yield "pickled.pth", pickle.dumps(dict(model={}, evil=Runs(outside / "ran")))
    wrong: dict[str, Any] = dict(none=None, list=[], names=dict(model=3), keys=dict(model={"\x1b[2J": torch.zeros(2)}))
    wrong |= dict(format=dict(model={}, format=10**6), classes=dict(model={}, format=2, classes=["\x1b[2J", 3]))
    for name, content in wrong.items():
        yield f"{name}.pth", lambda path, content=content: torch.save(content, path)

    def deflated(path: Path) -> None:
        with zipfile.ZipFile(good) as given, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in given.namelist():
                packed.writestr(name, given.read(name) if "data/0" not in name else bytes(2**29))

    yield "deflated.pth", deflated
    claim = b'{"x": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4000000000000]}}'
    wraps = b'{"x": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}}'
    texts = b'{"__metadata__": {"format": "\\u001b[2J", "classes": "[[[["}}'
    heads = dict(open=b"{" * 10, deep=b"[" * 10**5, claim=claim, wraps=wraps, texts=texts)
    yield "long.safetensors", struct.pack("<Q", 2**62)
    for name, head in heads.items():
        yield f"{name}.safetensors", struct.pack("<Q", len(head)) + head
