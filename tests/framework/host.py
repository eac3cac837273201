"""What a host process has that a guest in it could change: taken before and after, the two are compared."""

import atexit
import contextlib
import gc
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from PIL import Image, ImageFile
from torch import _tensor_str


def snapshot() -> dict[str, Any]:
    """By name, what should be as it was. Of loggers those that would say something: with handlers or a level."""
    return dict(
        random=random.getstate(),
        numpy=[part.tolist() if isinstance(part, np.ndarray) else part for part in np.random.get_state()],  # noqa: NPY002
        numpy_says=(np.geterr(), np.get_printoptions()),
        torch=torch.get_rng_state().tolist(),
        torch_flags=_torch_flags(),
        matplotlib=(matplotlib.get_backend(auto_select=False), dict(dict.items(matplotlib.rcParams))),
        figures=_figures(),
        pillow=(Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES),
        environment=dict(os.environ),
        signals={number: signal.getsignal(number) for number in signal.valid_signals()},
        alarm=signal.getitimer(signal.ITIMER_REAL),
        warnings=(list(warnings.filters), warnings.formatwarning, warnings.showwarning),
        loggers=_loggers(),
        logging=(logging.root.manager.disable, logging.lastResort, logging.getLoggerClass()),
        path=(list(sys.path), _finders(), list(sys.path_hooks)),
        folder=os.getcwd(),
        umask=_umask(),
        hooks=(sys.excepthook, threading.excepthook, sys.displayhook, sys.unraisablehook, sys.gettrace()),
        streams=(sys.stdin, sys.stdout, sys.stderr),
        limits=(sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), gc.get_threshold()),
        open_files_limit=resource.getrlimit(resource.RLIMIT_NOFILE),
        locale=locale.setlocale(locale.LC_ALL),
        start_method=multiprocessing.get_start_method(allow_none=True),
        files=sorted(_open_files()),
        threads=sorted(thread.name for thread in threading.enumerate()),
        children=sorted(str(child.pid) for child in multiprocessing.active_children()),
        at_exit=atexit._ncallbacks(),
        mmengine=_instances(),
    )


def _finders() -> list[Any]:
    """All but ours, which only answers for old names of ndformer's own modules."""
    return [finder for finder in sys.meta_path if type(finder).__name__ != "OldNames"]


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """A line for each thing that is not what it was."""
    found = []
    for name in before:
        if before[name] == after[name]:
            continue
        old, new = (_parts(side[name]) for side in (before, after))
        parts = [
            f"{key}: {old.get(key)!r:.80} is {new.get(key)!r:.80}" for key in old | new if old.get(key) != new.get(key)
        ]
        found.append(f"{name}: {'; '.join(parts[:6])}")
    return found


def _parts(value: Any) -> dict[Any, Any]:
    return (
        value
        if isinstance(value, dict)
        else dict(enumerate(value))
        if isinstance(value, (list, tuple))
        else {"": value}
    )


def _torch_flags() -> dict[str, Any]:
    return dict(
        threads=torch.get_num_threads(),
        interop=torch.get_num_interop_threads(),
        dtype=torch.get_default_dtype(),
        device=torch.get_default_device(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        matmul=torch.get_float32_matmul_precision(),
        grad=torch.is_grad_enabled(),
        anomaly=torch.is_anomaly_enabled(),
        autocast=(torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        cudnn=(torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        tf32=(torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32),
        print=vars(_tensor_str.PRINT_OPTS),
        sharing=torch.multiprocessing.get_sharing_strategy(),
        distributed=torch.distributed.is_initialized(),
    )


def _figures() -> list[int]:
    plt = sys.modules.get("matplotlib.pyplot")
    return plt.get_fignums() if plt else []


def _loggers() -> dict[str, Any]:
    named = {name: one for name, one in logging.root.manager.loggerDict.items() if isinstance(one, logging.Logger)}
    said = {
        name: (one.level, list(one.handlers), one.propagate, one.disabled, list(one.filters))
        for name, one in named.items()
    }
    heard = {name: one for name, one in said.items() if one != (0, [], True, False, [])}
    return {
        name: one for name, one in heard.items() if not name.startswith("torch.")
    } | dict(  # torch's own, at imports
        root=(logging.root.level, list(logging.root.handlers), list(logging.root.filters))
    )


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def _open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):  # that of the listing itself
            found.append(os.readlink(path))
    return [name for name in found if not name.endswith(("/fd", ".ttf"))]  # matplotlib keeps fonts open


def _instances() -> dict[str, list[str]]:
    """mmengine keeps what has a name for ever."""
    utils = sys.modules.get("mmengine.utils")
    kinds: list[Any] = []
    waiting = [utils.ManagerMixin] if utils else []
    while waiting:
        kind = waiting.pop()
        kinds.append(kind)
        waiting += kind.__subclasses__()
    held = {kind.__name__: list(vars(kind).get("_instance_dict", ())) for kind in kinds}
    return {name: names for name, names in held.items() if names}
