"""Checkpoints: files of tensors and plain values, written atomically and read without executing code."""

import argparse
import itertools
import os
import re
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ndformer.framework import foreign
from ndformer.framework.engine.training import contents, exported, nonfinite
from ndformer.framework.engine.training.contents import FORMAT
from ndformer.framework.errors import DataError
from ndformer.framework.system import archive, atomic

LAST, PREVIOUS, BEST = "last.pth", "previous.pth", "best.pth"


class _Recorder(archive.Sealing):
    """A file that records its write error: torch reports a full disk as an internal error."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            raise


def save(path: Path, content: dict[str, Any], previous: str | None = None) -> None:
    """Write a checkpoint atomically: an interrupted or failed write leaves the old file as it was.

    With `previous`, the old file is kept under that name.
    """
    recorder = None
    try:
        with atomic.replacing(path) as half:
            with open(half, "wb") as file:
                recorder = _Recorder(file)
                archive.save(recorder, dict(format=FORMAT) | content)
            if previous is not None and path.exists():
                _link(path, path.with_name(previous))
        atomic.sync(path.parent)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else recorder.error if recorder else None
        if cause is None:
            raise
        raise contents.unwritable(path, str(cause.strerror)) from error


def _link(path: Path, name: Path) -> None:
    """Give a file a second name; `path` exists at every moment."""
    with atomic.replacing(name) as copy:
        try:
            os.link(path, copy)
        except OSError:  # a file system without links
            copy.write_bytes(path.read_bytes())


def is_sharded(path: Path) -> bool:
    """Return whether a checkpoint is a folder, which several processes wrote."""
    return ((path if path.exists() else atomic.replaced_path(path)) / contents.MANIFEST).is_file()


def located(path: Path) -> Path:
    """Return the folder best/ if there is no file best.pth or an older one, else the path."""
    if path.suffix != ".pth" or not is_sharded(path.with_suffix("")):
        return path
    return forms(path)[0]


def forms(path: Path) -> list[Path]:
    """Return the forms in which last.pth, for example, exists, as a file and as a folder, the newest first."""
    folder = path.with_suffix("")
    marks = {path: path, folder: folder / contents.MANIFEST}
    ages = {form: mark.stat().st_mtime_ns for form, mark in marks.items() if mark.is_file()}
    if is_sharded(folder):
        ages.setdefault(folder, 0)  # it is being replaced
    return sorted(ages, key=lambda form: -ages[form])


def exists(path: Path) -> bool:
    """Return whether a checkpoint is at a path, as a file or as a folder."""
    return path.is_file() or is_sharded(located(path))


def load(path: str | Path, templates: dict[str, Tensor] | None = None) -> dict[str, Any]:
    """Load the content of a checkpoint, a file or a folder, or a .safetensors file; no code in it is executed.

    best.pth stands for best/ too. With `templates`, DTensors by parameter name, all processes call it and get their
    shards of such parameters.
    """
    path = located(Path(path))
    if is_sharded(path):
        from ndformer.framework.engine.training import sharded  # imports torch.distributed.checkpoint

        content = sharded.load(path, templates)
        contents.check(content, path)
        return content
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir() if p.suffix == ".pth" or is_sharded(p))
        raise DataError(
            f"{path}: expected a checkpoint, got a folder of them: add one of {', '.join(inside)}"
            if inside
            else f"{path}: expected a checkpoint, got a folder without any"
        )
    foreign.check_not_special(path)
    if not path.is_file():
        siblings = sorted(p.name for p in path.parent.glob("*.pth")) if path.parent.is_dir() else []
        raise DataError(f"no checkpoint at {path}" + (f". The folder has {', '.join(siblings)}" if siblings else ""))
    try:
        content, sealed = (exported.read if path.suffix == ".safetensors" else archive.read)(foreign.regular(path))
    except DataError:
        raise
    except Exception as error:
        why = (str(error) or type(error).__name__).splitlines()[0].split(". ")[0]
        raise _unsafe(path, "".join(letter if letter.isprintable() else "?" for letter in why)) from error
    contents.check(content, path)
    if content.get("format", 0) >= 3 and not sealed:
        raise _unsafe(path, "its digest is missing")
    if templates:
        from ndformer.framework.engine.training import sharded

        content = sharded.distribute(content, templates)
    return content


def _unsafe(path: Path, why: str) -> DataError:
    return DataError(f"{path} is not a checkpoint that can be read safely ({why}). Give another best.pth or last.pth")


def load_newest(folder: Path, templates: dict[str, Tensor] | None = None) -> tuple[Path, dict[str, Any]]:
    """Load last.pth or last/ of a run or, if it is damaged, previous.pth or previous/; see load()."""
    paths = [path for name in (LAST, PREVIOUS) for path in forms(folder / name)]
    if not paths:
        raise DataError(f"nothing to resume in {folder}: it has no {LAST}", "start without --resume")
    for path, following in itertools.zip_longest(paths, paths[1:]):
        try:
            content = load(path, templates)
            contents.check_run(content, path)
            return path, content
        except DataError as error:
            if following is None:
                raise DataError(f"{error}. There is no other checkpoint", "--overwrite starts a new run") from None
            print(f"{error}. Resuming from {following}")
    raise AssertionError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of programs that use a trained model."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument(
        "--resize-positions", action="store_true", help="interpolate position tables to the size of this config"
    )


def load_weights(model: nn.Module, content: dict[str, Any], path: str | Path, resize: bool = False) -> None:
    """Load the weights of a checkpoint into a model, or raise and name those that do not fit.

    With `resize`, position tables are interpolated to the size of the model's.
    """
    model.load_state_dict(check_weights(model, content, path, resize))


def check_weights(
    model: nn.Module, content: dict[str, Any], path: str | Path, resize: bool = False
) -> dict[str, Tensor]:
    """Return the weights of a checkpoint if all fit the model, else raise."""
    expected, loaded = model.state_dict(), dict(content["model"])
    missing, extra = [n for n in expected if n not in loaded], [n for n in loaded if n not in expected]
    wrong = [n for n in expected if n in loaded and expected[n].shape != loaded[n].shape]
    tables = {n: _resize_table(model, n, loaded[n], expected[n]) for n in wrong if re.search(r"\.tables\.\d+$", n)}
    resized = {n: table for n, table in tables.items() if table is not None}
    if resize:
        loaded |= resized
        wrong = [n for n in wrong if n not in resized]
    if missing or extra or wrong:
        shapes = [f"{n} {tuple(loaded[n].shape)} instead of {tuple(expected[n].shape)}" for n in wrong]
        named = [*(f"{n} is missing" for n in missing), *(f"{n} is not in the model" for n in extra), *shapes]
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        config = Path(path).parent / "config.py"
        hint = f". Use its config {config}, without options that change the model"
        hint, option = hint if config.is_file() else "", ""
        if not (missing or extra) and set(wrong) == set(resized):
            hint, option = f"{hint}. These are position tables", "--resize-positions resizes them"
        raise DataError(f"{path} does not fit the model: {'; '.join(named[:3])}{more}{hint}", option)
    check_finite(loaded, path)
    return loaded


def check_finite(weights: dict[str, Tensor], path: str | Path) -> None:
    """Raise if a weight is NaN or infinite: predictions of such a model would be wrong without notice."""
    bad = [name for name, value in weights.items() if not nonfinite.finite([value])]
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise DataError(
            f"{path}: expected finite weights, got NaN or infinity in {bad[0]}{more}. Give another checkpoint"
        )


def _resize_table(model: nn.Module, name: str, table: Tensor, target: Tensor) -> Tensor | None:
    """Interpolate a position table (heads, entries) to the shape of `target`; None if it cannot be.

    A table over several axes must have equal sides.
    """
    encoding: Any = model.get_submodule(name.rpartition(".tables.")[0])
    if table.dim() != 2 or table.shape[0] != target.shape[0]:
        return None
    axes = len(encoding.max_steps) if len(encoding.tables) == 1 else 1
    sides = [round(each.shape[1] ** (1 / axes)) for each in (table, target)]
    if axes > 3 or sides[0] ** axes != table.shape[1] or sides[1] ** axes != target.shape[1]:
        return None
    cube = table.reshape(1, len(table), *[sides[0]] * axes)
    mode = ("linear", "bilinear", "trilinear")[axes - 1]
    return nn.functional.interpolate(cube, [sides[1]] * axes, mode=mode, align_corners=True).reshape(target.shape)
