"""A good guest: what belongs to the whole process is, when we leave, as it was when we came (host state).

importing()              around imports that draw random numbers and set environment variables
running()                around a training: also loaders, open logs, and what mmengine keeps for ever
at_end(close)      has something ended with the training that is on, or else with the process
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

import numpy as np
import torch
from torch.utils.data._utils import signal_handling

_stack: contextlib.ExitStack | None = None  # of the training that is on


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """rich, which mmengine imports, draws from Python's random numbers; OpenCV says where its Qt is."""
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
    """A training seeds all random numbers; mmengine sets limits and start methods, and keeps a logger for each run."""
    global _stack
    outer, drawn = _stack, np.random.get_state()  # noqa: NPY002 (the host's)
    method = multiprocessing.get_start_method(allow_none=True)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    opencv = sys.modules.get("cv2")
    threads = opencv and opencv.getNumThreads()
    devices = range(torch.cuda.device_count())
    with contextlib.ExitStack() as stack, importing(), torch.random.fork_rng(devices), warnings.catch_warnings():
        _stack = stack
        stack.enter_context(_restore_mmengine())
        stack.enter_context(_restore_sigchld())
        multiprocessing.set_start_method(None, force=True)  # mmengine warns where it finds another than its own
        try:
            yield
        finally:
            _stack = outer
            np.random.set_state(drawn)  # noqa: NPY002
            multiprocessing.set_start_method(method, force=True)
            resource.setrlimit(resource.RLIMIT_NOFILE, files)
            if opencv:
                opencv.setNumThreads(threads)


def at_end(close: Callable[[], object]) -> None:
    """Have `close` called when the training that is on ends, or where none is, the process."""
    (atexit.register if _stack is None else _stack.callback)(close)


def ignore_dead_workers() -> None:
    """Until the training that is on has ended, as a second dead worker would interrupt the cleanup after the first."""
    in_main = threading.current_thread() is threading.main_thread()
    if _stack is not None and in_main and signal_handling._SIGCHLD_handler_set:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


@contextlib.contextmanager
def _restore_mmengine() -> Iterator[None]:
    """Loggers, message hubs and scopes by the name of the run."""
    from mmengine.logging import MessageHub, MMLogger
    from mmengine.registry import DefaultScope
    from mmengine.visualization import Visualizer

    kinds = (MMLogger, MessageHub, DefaultScope, Visualizer)
    before = {kind: kind._instance_dict.copy() for kind in kinds}
    try:
        yield
    finally:
        for name, logger in MMLogger._instance_dict.items():
            for handler in [] if name in before[MMLogger] else logger.handlers:
                handler.close()
        for kind, instances in before.items():
            kind._instance_dict.clear()
            kind._instance_dict.update(instances)


@contextlib.contextmanager
def _restore_sigchld() -> Iterator[None]:
    """torch's handler for SIGCHLD stays for ever once a loader has had workers; it is set again where one has some."""
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
