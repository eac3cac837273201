"""The argument parser of all programs: it accepts a run's folder or a shipped model as CONFIG, and suggests options."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ndformer.framework import foreign
from ndformer.framework.engine.config import saved, shipped
from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.errors import nearest, shorten_list

CONFIG, CHECKPOINT = "config", "checkpoint"
MAX_RUNS = 8  # that are listed in a message
SUFFIXES = (".pth", ".pt", ".safetensors")  # of checkpoints
# A config key, or an option of ndformer -> names of options for it in other programs
_KEYS = {
    "train_cfg.max_epochs": "epochs max-epochs",
    "optimizer.lr": "lr learning-rate",
    "optimizer.weight_decay": "weight-decay",
    "train_dataloader.batch_size": "batch-size",
    "train_dataloader.num_workers": "num-workers workers",
    "schedule.warmup": "warmup",
    "seed": "seed",
    "train_cfg.amp": "amp",
    "train_cfg.accumulate": "accumulate",
    "train_cfg.clip_grad": "clip-grad",
    "train_cfg.compile": "compile",
    "model.head.classes": "classes num-classes",
    "model.backbone.depth": "depth",
    "model.backbone.dim": "dim",
    "model.backbone.heads": "heads",
    "model.backbone.drop_path": "drop-path",
    "model.modalities.image.patch": "patch patch-size",
    "weights": "weights pretrained",
    "metrics": "metric",
}
_OPTIONS = {
    "--data-root": "data data-dir data-path dataset",
    "--work-dir": "output output-dir save-dir out-dir",
    "--device": "gpu gpus cuda",
    "--cfg-options": "cfg opts",
}
KEYS, OPTIONS = ({name: key for key, names in table.items() for name in names.split()} for table in (_KEYS, _OPTIONS))


class Parser(argparse.ArgumentParser):
    """An argument parser that replaces the folder of a run or the name of a shipped model by its files.

    It suggests known options for unknown ones.
    """

    first: str | None = None  # the first positional argument, for messages

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().parse_args(self._expand_run_folder(sys.argv[1:] if args is None else list(args)), namespace)

    def _expand_run_folder(self, words: list[str]) -> list[str]:
        """Replace the folder of a run, as the first positional argument, by its config and checkpoint."""
        actions = [action for action in self._actions if not action.option_strings]
        positionals = [action.dest for action in actions]
        if positionals[:1] != [CONFIG] or positionals[1:2] == ["checkpoints"]:  # extrapolate.py reads folders itself
            return words
        if positionals[1:2] == [CHECKPOINT]:
            actions[0].metavar = "RUN_DIR | CONFIG"  # in the usage before CHECKPOINT
        i = self._first_positional(words)
        self.first = None if i is None else words[i]
        files = None if i is None else run_files(shipped.model_folder(words[i]))
        if i is None or files is None:
            return words
        config, weights = files
        paths = map(Path, words[i + 1 : i + 2])
        has_checkpoint = any(path.suffix in SUFFIXES or checkpoint.is_sharded(path) for path in paths)
        both = positionals[1:2] == [CHECKPOINT] and not has_checkpoint
        return [*words[:i], str(config), *([str(weights)] if both else []), *words[i + 1 :]]

    def _first_positional(self, words: Sequence[str]) -> int | None:
        for i, word in enumerate(words):
            option = self._option_string_actions.get(words[i - 1]) if i else None
            if not word.startswith("-") and (option is None or option.nargs == 0):
                return i
        return None

    def _lacks_run(self, first: str) -> bool:
        """Return whether a program that takes a checkpoint got something else than a run's folder, as by a slip."""
        return (
            any(action.dest == CHECKPOINT for action in self._actions)
            and run_files(shipped.model_folder(first)) is None
        )

    def error(self, message: str) -> NoReturn:
        required = message.partition("are required: ")[2].split(", ")
        if self.first and (required[0] == "CHECKPOINT" or (required == ["FILE"] and self._lacks_run(self.first))):
            run = f"the folder of a run with {saved.DATA} and {checkpoint.BEST}"
            expected = f"expected CONFIG CHECKPOINT, {run}, or a shipped model ({', '.join(shipped.model_names())})"
            self.exit(2, f"{self.prog}: {expected}, got {self.first}{_remedy(Path(self.first))}\n")
        if self.first and required == ["FILE"]:
            self.exit(2, f"{self.prog}: expected a FILE after {self.first}, got none. Give one or more\n")
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown == message or not unknown.startswith("--"):
            super().error(message)
        option, *values = unknown.replace("=", " ", 1).split()
        names = [name for name in self._option_string_actions if name.startswith("--")]
        self.exit(2, f"{self.prog}: there is no option {option}{suggestion(option, values, names)}\n")


def run_files(folder: Path) -> tuple[Path, Path] | None:
    """Return the config and the best checkpoint of a run's or a published folder; None for another folder."""
    config = folder / saved.DATA
    weights = [folder / name for name in (checkpoint.BEST, exported.FILE) if checkpoint.exists(folder / name)]
    return (config, weights[0]) if weights and config.is_file() else None


def _remedy(path: Path) -> str:
    """Return advice for a path that is not the folder of a run."""
    if path.parent.name and path.parent.is_dir() and not path.exists():
        names = [foreign.printable(other.name) for other in path.parent.iterdir()]
        return f", which does not exist{nearest(path.name, names)}"
    if (meant := nearest(str(path), shipped.model_names())) != ".":
        return meant
    if run_files(path.parent) is not None:
        return f" alone. Give {path.parent}, which stands for its config and best checkpoint"
    if runs := _runs_in(path):
        return f", which contains runs. Give one of them: {shorten_list(runs, MAX_RUNS)}"
    return " alone. Train first, or add the checkpoint after it"


def _runs_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [foreign.printable(str(inner)) for inner in sorted(folder.iterdir()) if run_files(inner) is not None]


def suggestion(option: str, values: Sequence[str], options: Iterable[str]) -> str:
    """Return the end of a message on an unknown option: a similar option, or the config key for it."""
    name = option.removeprefix("--").replace("_", "-")
    options = list(options)
    value = values[0] if values and not values[0].startswith("-") else "VALUE"
    if "--cfg-options" in options and name in KEYS:
        return f". Did you mean --cfg-options {KEYS[name]}={value}?"
    if OPTIONS.get(name) in options:
        return f". Did you mean {OPTIONS[name]} {value}?"
    return f"{nearest(option, options)} --help lists the options."
