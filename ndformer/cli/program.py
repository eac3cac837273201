"""Shared parts of all command-line programs: arguments, loading the config, and error messages."""

import argparse
import os
import platform
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ndformer.cli.parsing import Parser
from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.data.workers import explained
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.config.text import parse_option
from ndformer.framework.engine.training import pretrained
from ndformer.framework.errors import ConfigError, DataError, UnknownNameError
from ndformer.framework.foreign.files import VARIABLE, size_from
from ndformer.framework.system import devices, malloc, processes
from ndformer.framework.system.pipes import exit_on_closed_pipe
from ndformer.version import __version__

NO_MEMORY = ("can't allocate memory", "out of memory")  # in torch's messages, on CPU and on CUDA


def run(main: Callable[[], object]) -> None:
    """Run main() as a program: an error is printed without traceback, with exit code 1.

    NDFORMER_DEBUG=1 shows the traceback. Warnings are printed without their line of code.
    """
    default_format = warnings.formatwarning

    def format_warning(message: Warning | str, category: type[Warning], *location: Any) -> str:
        return (
            f"{program()}: {foreign.single_line(message)}\n"
            if category is UserWarning
            else default_format(message, category, *location)
        )

    warnings.formatwarning = format_warning
    processes.end_with_parent()
    malloc.retain_freed()
    # Distant keys have weights below 1e-38, with which some processors compute much slower than with 0
    torch.set_flush_denormal(True)
    try:
        with exit_on_closed_pipe(), foreign.plain_streams():
            main()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get("NDFORMER_DEBUG"):
            raise
        error = explained(error)
        is_expected = isinstance(error, (DataError, UnknownNameError, ConfigError))
        hint = "" if is_expected else " (NDFORMER_DEBUG=1 shows where)"
        option = error.option if isinstance(error, DataError) else ""
        message = format_error(error)
        lines = message.splitlines() if isinstance(error, ConfigError) else [message]
        text = "\n".join(map(foreign.single_line, lines))
        sys.exit(f"{program()}: {text}{';' * (bool(option) and text[-1:] != '?')} {option}".rstrip() + hint)
    finally:
        torch.set_flush_denormal(False)  # of this thread, which tests continue to use
        warnings.formatwarning = default_format


def format_error(error: Exception) -> str:
    """Format an error as one sentence."""
    message = str(error).strip()
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(part in message for part in NO_MEMORY):
        reason = f" ({message.splitlines()[0]})" if message else ""
        return f"there is not enough memory{reason}: lower batch_size, or make the model or its inputs smaller"
    if isinstance(error, (DataError, UnknownNameError, ValueError, TypeError, OSError, ImportError)):
        return message.rpartition("DataError: ")[2]  # a data loader's worker sends its traceback
    return f"{type(error).__name__}: {message.splitlines()[0]}" if message else type(error).__name__


def program() -> str:
    return Path(sys.argv[0]).stem


def new_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return the argument parser of a program, with its docstring as help text."""
    folder = Path(sys.argv[0]).parent.name
    name = f"ndformer {'benchmarks/' * (folder == 'benchmarks')}{program()}"
    parser = Parser(prog=name, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    versions = f"ndformer {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    parser.add_argument("--version", action="version", version=versions)
    return parser


def _variable_setter(variable: str, check: Callable[[str], object]) -> Callable[[str], str]:
    """Return the type of an option that sets an environment variable, which worker processes inherit."""

    def export(text: str) -> str:
        check(text)
        os.environ[variable] = text
        return text

    return export


def device_argument(parser: argparse.ArgumentParser) -> None:
    """Add --device, for programs that run a model."""
    kind = _variable_setter(devices.VARIABLE, devices.parse)
    parser.add_argument(
        "--device", metavar="DEVICE", type=kind, help="cpu, cuda, cuda:1 or mps; default: a GPU where there is one"
    )


def file_arguments(parser: argparse.ArgumentParser) -> None:
    kind = _variable_setter(VARIABLE, size_from)
    parser.add_argument(
        "--file-limit", metavar="SIZE", type=kind, help="memory limit for reading one data file, such as 2G (512M)"
    )


def check_folder(option: str, path: Path | None) -> None:
    """Raise if a folder that is to be read or written is a file."""
    if path is not None and path.is_file():
        raise ConfigError(f"{option} names a folder, got the file {path}")


def config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        metavar="CONFIG",
        type=config_path,
        help="a config file, the name of one in configs/, or a run's folder",
    )
    parser.add_argument("--encoding", metavar="NAME", help="another encoding: PaPE, 'PaPE(m=8)'")
    setting_arguments(parser)


def setting_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(weights=None, keep_encoding=False)  # for programs without weights_arguments
    file_arguments(parser)
    parser.add_argument("--sample", action="store_true", help="use the config's small version, on generated data")
    parser.add_argument("--data-root", metavar="DIR", help="folder of the data")
    parser.add_argument(
        "--cfg-options", metavar="KEY=VALUE", nargs="+", action="extend", default=[], help="set keys of the config"
    )
    parser.add_argument(
        "--trust-config", action="store_true", help="run a run's config.py, and import the modules that it lists"
    )


def weights_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --weights and --keep-encoding, for programs that start from pretrained weights."""
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="pretrained weights, which set the sizes of the model: a checkpoint, or SOURCE:FILE as in timm:vit.pth",
    )
    parser.add_argument("--keep-encoding", action="store_true", help="also use the encoding of the weights")


def _adapter(args: argparse.Namespace) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """Return the function that changes the sizes of a config's model to those of --weights."""
    text, keep_encoding = args.weights, args.keep_encoding
    if text is None:
        if keep_encoding:
            raise ConfigError("--keep-encoding: expected --weights, got none. Add --weights FILE")
        return None
    return lambda cfg: pretrained.adapt_config(cfg, pretrained.read(text), keep_encoding)


def config_from(args: argparse.Namespace, splits: Sequence[str] = SPLITS) -> Config:
    """Load the config that the arguments name, for a program that reads the loaders of these splits."""
    _warn_unread_loaders(args.cfg_options, splits)
    root = [] if args.data_root is None else [f"data_root={args.data_root!r}"]
    options = [*args.cfg_options, *root]
    checkpoint = getattr(args, "checkpoint", None)
    if checkpoint is not None:
        foreign.check_not_special(checkpoint)  # before a config is executed
    cfg = load(args.config, options, args.encoding, args.sample, args.trust_config, _adapter(args), checkpoint)
    folder = args.data_root
    if folder is not None and Path(folder).is_file():
        packed = folder.lower().endswith((".zip", ".tar", ".gz", ".tgz", ".7z", ".rar", ".bz2", ".xz"))
        remedy = "Unpack it, and give the folder." if packed else "Give the folder that the data is in."
        raise DataError(f"--data-root: expected a folder, got the file {folder}. {remedy}")
    if folder is not None and cfg.get("sample") == {} and not args.sample and not Path(folder).exists():
        raise DataError(f"there is no folder {folder}", "add --sample to generate data there")
    return cfg


def _warn_unread_loaders(options: Sequence[str], splits: Sequence[str]) -> None:
    """Warn of options that only change loaders which the program does not read."""
    places = [parse_option(option)[0] for option in options]
    for loader, *inner in places:
        read = {(f"{split}_dataloader", *inner) for split in splits}
        unread = [f"{split}_dataloader" for split in SPLITS if split not in splits]
        if loader in unread and not read & set(places):
            suggestion = ".".join((f"{splits[0]}_dataloader", *inner))
            warnings.warn(
                f"{'.'.join((loader, *inner))} has no effect, since this program reads {splits[0]}_dataloader. Did you "
                f"mean {suggestion}?",
                stacklevel=2,
            )
