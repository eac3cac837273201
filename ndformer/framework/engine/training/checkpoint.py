"""Checkpoints: plain tensors and numbers, written whole or not at all, read without running anything."""

import argparse
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework import foreign
from ndformer.framework.engine.training import contents, exported, nonfinite
from ndformer.framework.errors import DataError
from ndformer.framework.system import archive, atomic

FORMAT = 3  # since which checkpoints have a digest, and fingerprints of the data
LAST, PREVIOUS, BEST = "last.pth", "previous.pth", "best.pth"


class _Recorder(archive.Sealing):
    """A file that remembers why it could not be written: torch reports a full disk as a bug of its own."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return self.put(data)
        except OSError as error:
            self.error = error
            raise

    def put(self, data: Any) -> int:
        return super().write(data)


def save(path: Path, content: dict[str, Any], keep: str | None = None) -> None:
    """Written whole and synced: an interrupted write leaves the file before it, a failed one too.

    `keep` is the name under which the file before it stays.
    """
    recorder = None
    try:
        with atomic.replacing(path) as half:
            with open(half, "wb") as file:
                recorder = _Recorder(file)
                torch.save(dict(format=FORMAT) | content, recorder)  # pyright: ignore[reportArgumentType]
                recorder.seal()
                file.flush()
                os.fsync(file.fileno())
            if keep is not None and path.exists():
                _second_name(path, path.with_name(keep))
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else recorder.error if recorder else None
        if cause is None:
            raise
        raise DataError(
            f"{path} cannot be written ({cause.strerror}): the checkpoint before it is whole. Make room or permit "
            "writing",
            "then --resume goes on",
        ) from error


def _second_name(path: Path, name: Path) -> None:
    """`name` becomes another name of the file; at each moment `path` is there."""
    with atomic.replacing(name) as beside:
        try:
            os.link(path, beside)
        except OSError:  # a file system without links
            beside.write_bytes(path.read_bytes())


def _sync_folder(folder: Path) -> None:
    """A rename is safe from a power failure once its folder is written."""
    if os.name == "posix":
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def load(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint or of a .safetensors file; neither can hold code."""
    path = Path(path)
    if path.is_dir():
        inside = ", ".join(sorted(p.name for p in path.glob("*.pth"))) or "no .pth file"
        raise DataError(f"{path} is a folder, a checkpoint is a file; in it: {inside}")
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.pth")) if path.parent.is_dir() else []
        raise DataError(f"no checkpoint at {path}" + (f"; beside it: {', '.join(near)}" if near else ""))
    try:
        content, sealed = (exported.read if path.suffix == ".safetensors" else archive.read)(foreign.regular(path))
    except DataError:
        raise
    except Exception as error:
        why = (str(error) or type(error).__name__).splitlines()[0].split(". ")[0]
        why = "".join(letter if letter.isprintable() else "?" for letter in why)
        raise DataError(
            f"{path} is not a checkpoint that can be read safely ({why}): take another best.pth or last.pth"
        ) from error
    contents.check(content, path, FORMAT)
    if content.get("format", 0) >= 3 and not sealed:
        raise DataError(
            f"{path} is not a checkpoint that can be read safely (it was written with a digest, which is gone): give "
            "best.pth or last.pth of a run"
        )
    return content


def load_newest(folder: Path) -> tuple[Path, dict[str, Any]]:
    """What a run goes on from: last.pth, or where that is damaged the one before it."""
    found = [folder / name for name in (LAST, PREVIOUS) if (folder / name).is_file()]
    if not found:
        raise DataError(f"nothing to resume in {folder}: it has no {LAST}", "start without --resume")
    for path in found:
        try:
            content = load(path)
            contents.check_run(content, path)
            return path, content
        except DataError as error:
            if path == found[-1]:
                raise DataError(f"{error}. There is no other to go on from", "--overwrite starts anew") from None
            print(f"{error}; going on from {found[-1]}")
    raise AssertionError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of programs that use what was trained."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument(
        "--resize-positions", action="store_true", help="interpolate tables over positions to the reach of this config"
    )


def load_weights(model: nn.Module, content: dict[str, Any], path: str | Path, resize: bool = False) -> None:
    """The weights of a checkpoint into a model built for them, or a sentence that says which do not fit. With `resize`,
    tables over positions are interpolated to the model's reach."""
    model.load_state_dict(check_weights(model, content, path, resize))


def check_weights(
    model: nn.Module, content: dict[str, Any], path: str | Path, resize: bool = False
) -> dict[str, Tensor]:
    """The weights that fit the model, or that sentence."""
    own, given = model.state_dict(), dict(content["model"])
    missing, extra = [n for n in own if n not in given], [n for n in given if n not in own]
    wrong = [n for n in own if n in given and own[n].shape != given[n].shape]
    tables = {n: _resized(model, n, given[n], own[n]) for n in wrong if re.search(r"\.tables\.\d+$", n)}
    fitting = {n: table for n, table in tables.items() if table is not None}
    if resize:
        given |= fitting
        wrong = [n for n in wrong if n not in fitting]
    if missing or extra or wrong:
        shapes = [f"{n} {tuple(given[n].shape)} instead of {tuple(own[n].shape)}" for n in wrong]
        named = [*(f"{n} is missing" for n in missing), *(f"{n} is not in the model" for n in extra), *shapes]
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        own_config = Path(path).parent / "config.py"
        hint = f". Its own config is {own_config}, as it is: without other options or another encoding"
        hint, option = hint if own_config.is_file() else "", ""
        if not (missing or extra) and set(wrong) == set(fitting):
            hint, option = f"{hint}. These are tables over positions", "--resize-positions resizes them"
        raise DataError(f"{path} is of another model: {'; '.join(named[:3])}{more}{hint}", option)
    check_finite(given, path)
    return given


def check_finite(weights: dict[str, Tensor], path: str | Path) -> None:
    """Raise if a weight is NaN or infinite: answers of such a model are NaN or, worse, look like numbers."""
    strange = [name for name, value in weights.items() if not nonfinite.finite([value])]
    if strange:
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        raise DataError(
            f"{path}: weights are finite numbers, got NaN or infinity in {strange[0]}{more}. Take another checkpoint"
        )


def _resized(model: nn.Module, name: str, given: Tensor, own: Tensor) -> Tensor | None:
    """A table (heads, entries) of one or, with equal sides, of several axes, interpolated to the model's own reach."""
    encoding: Any = model.get_submodule(name.rpartition(".tables.")[0])
    if given.dim() != 2 or given.shape[0] != own.shape[0]:
        return None
    axes = len(encoding.reach) if len(encoding.tables) == 1 else 1
    sides = [round(table.shape[1] ** (1 / axes)) for table in (given, own)]
    if axes > 3 or sides[0] ** axes != given.shape[1] or sides[1] ** axes != own.shape[1]:
        return None
    cube = given.reshape(1, len(given), *[sides[0]] * axes)
    mode = ("linear", "bilinear", "trilinear")[axes - 1]
    return nn.functional.interpolate(cube, [sides[1]] * axes, mode=mode, align_corners=True).reshape(own.shape)
