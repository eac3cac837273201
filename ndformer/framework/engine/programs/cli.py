"""What all command-line programs share: how a config is named, and errors as one sentence."""

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

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.data.workers import explained
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.config.text import parse_option
from ndformer.framework.engine.programs.parsing import Parser
from ndformer.framework.engine.training import pretrained
from ndformer.framework.errors import ConfigError, DataError, UnknownNameError
from ndformer.framework.foreign.files import VARIABLE, size_from
from ndformer.framework.system import devices, malloc, processes
from ndformer.framework.system.pipes import ending_with_their_reader
from ndformer.version import __version__

NO_MEMORY = ("can't allocate memory", "out of memory")  # torch's words for the host's, CUDA's


def run(main: Callable[[], object]) -> None:
    """main() as a program: an error is one sentence (a traceback with NDFORMER_DEBUG=1), exit code 1. A warning is one
    too, without the line of code that gave it."""
    plain = warnings.formatwarning

    def sentence(message: Warning | str, category: type[Warning], *where: Any) -> str:
        return (
            f"{program()}: {foreign.single_line(message)}\n"
            if category is UserWarning
            else plain(message, category, *where)
        )

    warnings.formatwarning = sentence
    processes.end_with_parent()
    malloc.keep_freed()
    # Far keys have weights below 1e-38, with which some processors compute far more slowly than with 0
    torch.set_flush_denormal(True)
    try:
        with ending_with_their_reader(), foreign.plain_streams():
            main()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get("NDFORMER_DEBUG"):
            raise
        error = explained(error)
        ours = isinstance(error, (DataError, UnknownNameError, ConfigError))
        where = "" if ours else " (NDFORMER_DEBUG=1 shows where)"
        option = error.option if isinstance(error, DataError) else ""
        several = told(error).splitlines() if isinstance(error, ConfigError) else [told(error)]
        words = "\n".join(map(foreign.single_line, several))
        sys.exit(f"{program()}: {words}{';' * (bool(option) and words[-1:] != '?')} {option}".rstrip() + where)
    finally:
        torch.set_flush_denormal(False)  # of this thread, which a test goes on with
        warnings.formatwarning = plain


def told(error: Exception) -> str:
    """What an error says, in a sentence."""
    said = str(error).strip()
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(sign in said for sign in NO_MEMORY):
        asked = f" ({said.splitlines()[0]})" if said else ""
        return f"there is not enough memory{asked}: lower batch_size, or make the model or its inputs smaller"
    if isinstance(error, (DataError, UnknownNameError, ValueError, TypeError, OSError, ImportError)):
        return said.rpartition("DataError: ")[2]  # a loader's worker sends its whole traceback
    return f"{type(error).__name__}: {said.splitlines()[0]}" if said else type(error).__name__


def program() -> str:
    return Path(sys.argv[0]).stem


def new_parser(doc: str | None) -> argparse.ArgumentParser:
    """That of a program with this text at its head."""
    parser = Parser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    versions = f"ndformer {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    parser.add_argument("--version", action="version", version=versions)
    return parser


class _Device(argparse.Action):
    """Into the environment, as the limit is."""

    def __call__(self, parser: argparse.ArgumentParser, given: Any, values: Any, option: str | None = None) -> None:
        devices.checked(values)
        os.environ[devices.VARIABLE] = values


def device_argument(parser: argparse.ArgumentParser) -> None:
    """Of programs that run a model."""
    parser.add_argument(
        "--device", metavar="DEVICE", action=_Device, help="cpu, cuda, cuda:1 or mps; default: a GPU where there is one"
    )


class _FileLimit(argparse.Action):
    """Into the environment, where loaders' workers and programs that this one starts have it from."""

    def __call__(self, parser: argparse.ArgumentParser, given: Any, values: Any, option: str | None = None) -> None:
        size_from(values)
        os.environ[VARIABLE] = values


def file_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file-limit", metavar="SIZE", action=_FileLimit, help="memory that one file of data may take: 2G (512M)"
    )


def config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", metavar="CONFIG", type=config_path, help="a file, the name of one in configs/, or a run's folder"
    )
    parser.add_argument("--encoding", metavar="NAME", help="another encoding: PaPE, 'PaPE(m=8)'")
    setting_arguments(parser)


def setting_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(weights=None, keep_encoding=False)  # of programs without weights_arguments
    file_arguments(parser)
    parser.add_argument("--sample", action="store_true", help="the small version, on generated data")
    parser.add_argument("--data-root", metavar="DIR", help="where the data is")
    parser.add_argument(
        "--cfg-options", metavar="KEY=VALUE", nargs="+", action="extend", default=[], help="other values of its keys"
    )
    parser.add_argument("--trust-config", action="store_true", help="run a run's config.py, import what it names")


def weights_arguments(parser: argparse.ArgumentParser) -> None:
    """Of programs that begin with pretrained weights."""
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="pretrained weights, whose sizes the model gets: our checkpoint, or SOURCE:FILE as in timm:vit.pth",
    )
    parser.add_argument("--keep-encoding", action="store_true", help="the weights' encoding stays, beside --encoding")


def _begin_with(given: argparse.Namespace) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    text, keep = given.weights, given.keep_encoding
    if text is None:
        if keep:
            raise ConfigError("--keep-encoding keeps the encoding of --weights, got no --weights: add --weights FILE")
        return None
    return lambda cfg: pretrained.adapted(cfg, pretrained.read(text), keep)


def config_from(given: argparse.Namespace, reads: Sequence[str] = SPLITS) -> Config:
    """The config that the arguments name, for a program that reads the loaders of some splits."""
    _tell_of_loaders_unread(given.cfg_options, reads)
    root = [] if given.data_root is None else [f"data_root={given.data_root!r}"]
    options, begin = [*given.cfg_options, *root], _begin_with(given)
    cfg = load(given.config, options, given.encoding, given.sample, given.trust_config, begin)
    home = given.data_root
    if home is not None and Path(home).is_file():
        packed = home.lower().endswith((".zip", ".tar", ".gz", ".tgz", ".7z", ".rar", ".bz2", ".xz"))
        remedy = "Unpack it, and name the folder." if packed else "Name the folder that the data is in."
        raise DataError(f"--data-root is a folder, got the file {home}. {remedy}")
    if home is not None and cfg.get("sample") == {} and not given.sample and not Path(home).exists():
        raise DataError(f"there is no folder {home}", "add --sample to have generated data made there")
    return cfg


def _tell_of_loaders_unread(options: Sequence[str], reads: Sequence[str]) -> None:
    """An option for another loader alone changes nothing."""
    places = [parse_option(option)[0] for option in options]
    for loader, *inner in places:
        own = {(f"{split}_dataloader", *inner) for split in reads}
        others = [f"{split}_dataloader" for split in SPLITS if split not in reads]
        if loader in others and not own & set(places):
            meant = ".".join((f"{reads[0]}_dataloader", *inner))
            warnings.warn(
                f"{'.'.join((loader, *inner))} changes nothing here, where {reads[0]}_dataloader is read: did you mean "
                f"{meant}?",
                stacklevel=2,
            )
