"""The argument parser of all programs: a run's folder in the place of CONFIG and CHECKPOINT, and unknown options."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.errors import nearest

CONFIG, CHECKPOINT = "config", "checkpoint"
SUFFIXES = (".pth", ".pt", ".safetensors")  # of checkpoints
# What other programs call an option -> the key of a config, or an option of ours
KEYS = {
    "epochs": "train_cfg.max_epochs",
    "max-epochs": "train_cfg.max_epochs",
    "lr": "optimizer.lr",
    "learning-rate": "optimizer.lr",
    "weight-decay": "optimizer.weight_decay",
    "batch-size": "train_dataloader.batch_size",
    "num-workers": "train_dataloader.num_workers",
    "workers": "train_dataloader.num_workers",
    "warmup": "schedule.warmup",
    "seed": "seed",
    "amp": "train_cfg.amp",
    "accumulate": "train_cfg.accumulate",
    "clip-grad": "train_cfg.clip_grad",
    "compile": "train_cfg.compile",
    "classes": "model.head.classes",
    "num-classes": "model.head.classes",
    "depth": "model.backbone.depth",
    "dim": "model.backbone.dim",
    "heads": "model.backbone.heads",
    "drop-path": "model.backbone.drop_path",
    "patch": "model.modalities.image.patch",
    "patch-size": "model.modalities.image.patch",
    "weights": "weights",
    "pretrained": "weights",
    "metric": "metrics",
}
OPTIONS = {
    "data": "--data-root",
    "data-dir": "--data-root",
    "data-path": "--data-root",
    "dataset": "--data-root",
    "output": "--work-dir",
    "output-dir": "--work-dir",
    "save-dir": "--work-dir",
    "out-dir": "--work-dir",
    "gpu": "--device",
    "gpus": "--device",
    "cuda": "--device",
    "cfg": "--cfg-options",
    "opts": "--cfg-options",
}


class Parser(argparse.ArgumentParser):
    first: str | None = None  # the first positional argument as given, for messages

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().parse_args(self._with_files_of_run(sys.argv[1:] if args is None else list(args)), namespace)

    def _with_files_of_run(self, words: list[str]) -> list[str]:
        """Replace the folder of a run, as the first positional argument, by its config and checkpoint."""
        wanted = [action.dest for action in self._actions if not action.option_strings]
        if wanted[:1] != [CONFIG] or wanted[1:2] == ["checkpoints"]:  # many runs: the program reads their folders
            return words
        at = self._first_positional(words)
        self.first = None if at is None else words[at]
        found = None if at is None else files_of_run(Path(words[at]))
        if at is None or found is None:
            return words
        config, weights = found
        both = wanted[1:2] == [CHECKPOINT] and not any(Path(word).suffix in SUFFIXES for word in words[at + 1 : at + 2])
        return [*words[:at], str(config), *([str(weights)] if both else []), *words[at + 1 :]]

    def _first_positional(self, words: Sequence[str]) -> int | None:
        for at, word in enumerate(words):
            before = self._option_string_actions.get(words[at - 1]) if at else None
            if not word.startswith("-") and (before is None or before.nargs == 0):
                return at
        return None

    def error(self, message: str) -> NoReturn:
        if self.first and message.endswith("are required: CHECKPOINT"):
            what = f"expected CONFIG CHECKPOINT, or the folder of a run with {saved.DATA} and {checkpoint.BEST}"
            self.exit(2, f"{self.prog}: {what}, got {self.first} alone. Train first, or name the checkpoint after it\n")
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown == message or not unknown.startswith("--"):
            super().error(message)
        option, *values = unknown.replace("=", " ", 1).split()
        known = [name for name in self._option_string_actions if name.startswith("--")]
        self.exit(2, f"{self.prog}: there is no option {option}{suggestion(option, values, known)}\n")


def files_of_run(folder: Path) -> tuple[Path, Path] | None:
    """Return the config and the best checkpoint of a run's or a published folder; None if it is another folder."""
    config = folder / saved.DATA
    weights = [folder / name for name in (checkpoint.BEST, exported.PLACE) if (folder / name).is_file()]
    return (config, weights[0]) if weights and config.is_file() else None


def suggestion(option: str, values: Sequence[str], known: Iterable[str]) -> str:
    """The end of a sentence about an unknown option: the one that is meant, or the key of a config."""
    name = option.removeprefix("--").replace("_", "-")
    known = list(known)
    value = values[0] if values and not values[0].startswith("-") else "VALUE"
    if "--cfg-options" in known and name in KEYS:
        return f". Did you mean --cfg-options {KEYS[name]}={value}?"
    if OPTIONS.get(name) in known:
        return f". Did you mean {OPTIONS[name]} {value}?"
    return f"{nearest(option, known)} --help lists the options."
