"""Run calls on hostile files in a process that reports code, programs, files, network, memory and time limits."""

import ctypes
import io
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
import torch._dynamo  # makes a folder

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.video.formats.process import decoder

SECONDS, BYTES = 20, 2**30  # of processor time and of memory, more than at the start, for one file
WAIT = 10 * SECONDS  # on the clock, for a program that waits, also on a busy machine
ROOT = Path(__file__).parents[2]
STARTED = ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.startfile", "subprocess.Popen", "pty.spawn")
CHANGED = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
VERSION = ["git", "rev-parse", "HEAD"]  # mmengine asks it when a run begins
DECODER = f"{sys.executable} -I -c import json, sys; sys.path[:] = json.loads(sys.argv[1]); from ndformer."
SYSTEM = ("/proc", "/sys", "/dev")  # how many cores there are, nothing, random numbers


class Watch:
    """A canary: reports that a file in a folder was opened or created, by any code (inotify)."""

    def __init__(self, folder: Path) -> None:
        self.libc = ctypes.CDLL(None)
        self.file = self.libc.inotify_init1(os.O_NONBLOCK)
        self.libc.inotify_add_watch(self.file, bytes(folder), 0x20 | 0x100)  # IN_OPEN, IN_CREATE

    def seen(self) -> bool:
        try:
            return bool(os.read(self.file, 4096))
        except BlockingIOError:
            return False


def forbid(folder: Path, tell: Callable[[str], object]) -> None:
    """Report programs other than our video decoder, network, writes outside of `folder`, and reads of other files."""
    own = (str(folder), str(ROOT), sys.prefix, os.path.realpath(sys.prefix), sys.base_prefix, *SYSTEM)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        own_program = event == "subprocess.Popen" and (given[1] == VERSION or DECODER in " ".join(given[1][:4]))
        if (event in STARTED and not own_program) or (event.startswith("socket.") and event != "socket.gethostname"):
            tell(f"{event} {str(given)[:80]}")
        if event == "pickle.find_class":
            tell(f"unpickled {given[0]}.{given[1]}")
        if event in ("open", *CHANGED) and isinstance(given[0], (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(given[0]))
            compiled = path.startswith(str(ROOT)) and "__pycache__" in path  # by Python or numba, once
            if not compiled and not path.startswith(own if event == "open" else str(folder)):
                tell(f"{event} {path}")

    sys.addaudithook(hook)


def prepare() -> None:
    """Import and warm up libraries first, whose own files would be reported otherwise."""
    torch.set_num_threads(1)  # threads do not live on in what is forked
    DATASETS.get("CIFAR10")
    plt.close(plt.figure())  # looks for fonts


def judged(call: Callable[[], object], folder: Path) -> str:
    """Return "read", "said" for a written error, or the violations of a call, in a process of its own.

    `call` is a function that may raise a DataError, or a program that ends with SystemExit; both may print.
    """
    reader, writer = os.pipe()
    begin, pid = time.monotonic(), os.fork()
    if not pid:
        os.close(reader)
        sys.modules["numba"] = None  # pyright: ignore[reportArgumentType] - it unpickles what it compiled before
        os.chdir(folder)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(WAIT)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        printed = [os.open(folder / name, os.O_CREAT | os.O_TRUNC | os.O_RDWR) for name in ("stdout", "stderr")]
        for at, file in enumerate(printed, 1):
            os.dup2(file, at)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(at, "w"), write_through=True) for at in (1, 2))
        forbid(folder, lambda what: os.write(writer, f"FORBIDDEN {what}\n".encode()))
        told = _ended(call)
        decoder().end()
        own, child = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        most = max(own - before, child if child > own else 0) * 1024  # a child's peak includes what it was forked from
        told += f" MEMORY {most / 2**20:.0f} MiB" if most > BYTES else ""
        os.write(writer, (told + _wrong_words(folder)).encode(errors="backslashreplace")[:2000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as file:
        told = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        hangs = code in (-signal.SIGALRM, -signal.SIGPROF)
        told += f" {'HANG' if hangs else f'CRASH {code}'} after {time.monotonic() - begin:.0f} s"
    return told


def _ended(call: Callable[[], object]) -> str:
    try:
        call()
        return "read"
    except DataError as error:
        return "said" if str(error).isprintable() else f"UNPRINTABLE {error!r}"
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # as Python does
        told = isinstance(end.code, str) or (end.code == 1 and os.fstat(1).st_size)
        return "said" if told else f"EXIT {end.code}" if end.code else "read"
    except BaseException as error:
        return f"TRACEBACK {type(error).__name__}: {str(error)[:150]!r}"


def _wrong_words(folder: Path) -> str:
    """Return printed lines, also of C libraries, that are not printable or on stderr not ours, or too many."""
    out, err = ((folder / name).read_text(errors="surrogateescape").split("\n") for name in ("stdout", "stderr"))
    wrong = [line for line in out + err if not line.isprintable() or line.startswith("Traceback")]
    wrong += [line for line in err if line and not line.startswith("program: ")] + err[4:]
    return f" PRINTED {wrong[:3]!r}"[:600] if wrong else ""
