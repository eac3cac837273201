"""Restore global state of the host process: random numbers, environment variables, signal handlers and loggers.

importing()      around imports that draw random numbers and set environment variables
running()        around a training; also restores mmengine's loggers, limits and signal handlers
on_exit(close)   calls `close` at the end of the current training, or of the process
"""

import atexit
import contextlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import signal_handling

MIN_OPEN_FILES = 4096

_stack: contextlib.ExitStack | None = None  # of the current training


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Restore Python's random state and environment variables, which rich (in mmengine) and OpenCV change on import."""
    state, variables = random.getstate(), dict(os.environ)
    try:
        yield
    finally:
        random.setstate(state)
        for name in set(os.environ) - set(variables):
            del os.environ[name]
        os.environ.update(variables)


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Restore all global state that a training changes: seeds, limits, start methods, loggers and signal handlers."""
    global _stack
    outer, numpy_state = _stack, np.random.get_state()  # noqa: NPY002 (state of the host)
    method = multiprocessing.get_start_method(allow_none=True)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    devices = range(torch.cuda.device_count())
    with contextlib.ExitStack() as stack, importing(), torch.random.fork_rng(devices), warnings.catch_warnings():
        _stack = stack
        stack.enter_context(_restore_mmengine())
        stack.enter_context(_restore_sigchld())
        multiprocessing.set_start_method(None, force=True)  # Python's own: a host's may need a picklable dataset
        resource.setrlimit(resource.RLIMIT_NOFILE, (_open_files(*files), files[1]))
        try:
            yield
        finally:
            _stack = outer
            np.random.set_state(numpy_state)  # noqa: NPY002
            multiprocessing.set_start_method(method, force=True)
            resource.setrlimit(resource.RLIMIT_NOFILE, files)


def _open_files(soft: int, hard: int) -> int:
    """Return the limit of open files of a training: batches of worker processes arrive as files."""
    enough = max(MIN_OPEN_FILES, soft)
    return enough if hard == resource.RLIM_INFINITY else min(enough, hard)


def on_exit(close: Callable[[], object]) -> None:
    """Call `close` at the end of the current training, or without one at the end of the process."""
    (atexit.register if _stack is None else _stack.callback)(close)


def ignore_dead_workers() -> None:
    """Ignore dead workers until the training ends: a second one would interrupt the cleanup after the first."""
    in_main = threading.current_thread() is threading.main_thread()
    if _stack is not None and in_main and signal_handling._SIGCHLD_handler_set:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


MMENGINE = dict(MMLogger="logging", MessageHub="logging", DefaultScope="registry", Visualizer="visualization")


@contextlib.contextmanager
def _restore_mmengine() -> Iterator[None]:
    """Remove loggers, message hubs and scopes that mmengine registers for each run."""
    before = _mmengine_instances()
    try:
        yield
    finally:
        for kind, instances in _mmengine_instances().items():
            kind._instance_dict.clear()
            kind._instance_dict.update(before.get(kind, {}))
            if kind.__name__ == "MMLogger":
                for logger in instances.keys() - kind._instance_dict.keys():
                    for handler in instances[logger].handlers:
                        handler.close()


def _mmengine_instances() -> dict[Any, dict[str, Any]]:
    """Return the instances that mmengine has registered, by class; a module that is not imported has none."""
    modules = {name: sys.modules.get(f"mmengine.{module}") for name, module in MMENGINE.items()}
    kinds = [getattr(module, name) for name, module in modules.items() if module is not None]
    return {kind: kind._instance_dict.copy() for kind in kinds}


@contextlib.contextmanager
def _restore_sigchld() -> Iterator[None]:
    """Remove torch's SIGCHLD handler, which the first loader with workers installs permanently."""
    if threading.current_thread() is not threading.main_thread() or signal_handling._SIGCHLD_handler_set:
        yield
        return
    before = signal.getsignal(signal.SIGCHLD)
    try:
        yield
    finally:
        if signal_handling._SIGCHLD_handler_set:
            signal.signal(signal.SIGCHLD, before)
            signal_handling._SIGCHLD_handler_set = False
