"""The lock of a work dir: a file with a heartbeat, so that two runs never write to one folder.

owner.json is created exclusively, which is atomic on shared file systems too, where flock may not work. On the same
host, a dead owner is recognized by process id and start time. From another host, an owner counts as dead when it has
not touched its file for `STALE` seconds, by the clock of the file system. If two runs have the folder all the same, the
first one ends before it writes another checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic, processes

NAME = "owner.json"
BEAT, STALE = 20.0, 300.0  # seconds between heartbeats, without one until the owner counts as dead
PATIENCE = 10.0  # seconds until a file written by one host is visible on the others


@dataclass(frozen=True)
class Process:
    """A process, identified across hosts, containers and reboots."""

    place: str  # host, boot and process-id namespace, in which the id is unique
    id: int
    start: int | None  # start time in clock ticks; None: unknown

    @property
    def has_exited(self) -> bool:
        """Whether the process has certainly exited; False for processes of other places."""
        now = _start(self.id)
        return self.place == _place() and (now == 0 or now is not None and now != self.start)


def this(number: int | None = None) -> Process:
    """Return the current process, or that of an id on this host."""
    number = os.getpid() if number is None else number
    return Process(_place(), number, _start(number))


def _place() -> str:
    boot, numbers = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    ids = [boot.read_text().strip(), os.readlink(numbers)] if boot.exists() and numbers.is_symlink() else []
    return " ".join([platform.node(), *ids])


def _start(number: int) -> int | None:
    """Return the start time of a process; 0: it does not exist; None: it exists, its start time is unknown."""
    try:
        os.kill(number, 0)
        state, *values = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except ProcessLookupError:
        return 0
    except OSError:  # another user's process, or a system without /proc
        return None
    return 0 if state in "ZX" else int(values[18])  # Z: exited, X: dead


def _process(content: dict[str, Any]) -> Process:
    """Return a process as JSON describes it, or raise ValueError or TypeError."""
    process = Process(**content)
    if type(process.id) is not int or not 0 <= process.id < 2**31 or not isinstance(process.place, str):
        raise ValueError
    return process


@dataclass(frozen=True)
class Owner:
    """The content of owner.json: the run that uses a folder."""

    host: str
    process: Process | None = None  # None: the run failed, and torchrun may start it again
    launch: tuple[Process, ...] = ()  # torchrun's agents that started the run

    @classmethod
    def read(cls, path: Path) -> Owner | None:
        try:
            if path.is_symlink():
                raise ValueError
            content = foreign.plain_json(path)
            process, launch = content["process"], content["launch"]
            owner = None if process is None else _process(process)
            return cls(content["host"], owner, tuple(map(_process, launch)))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):  # half written, or another program's file
            return cls("an unknown host", Process("", 0, None))

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


class Ownership:
    """The lock of a work dir; `again`: torchrun restarted the run that had it before."""

    def __init__(self, folder: Path) -> None:
        self.file, self.first = folder / NAME, processes.rank() == 0
        self.owner = Owner(platform.node(), this())
        agents = processes.gather_objects(processes.is_launched() and this(os.getppid()))
        self.launch = tuple(agent for agent in agents if agent)
        self.ended, before = threading.Event(), None
        if self.first:
            folder.mkdir(parents=True, exist_ok=True)
            with _folder_lock(folder):
                before = self._take()
                atomic.clear(folder)
        again = processes.is_restarted() and before is not None and not {*before.launch}.isdisjoint(self.launch)
        self.again = processes.gather_objects(again)[0]

    def _take(self) -> Owner | None:
        """Take the lock; return the owner before, if there was one."""
        before = None
        while not _create(self.file, self.owner.text()):
            with (
                contextlib.suppress(FileNotFoundError),  # released, or cleared by another owner
                atomic.temporary_folder(self.file.parent) as aside,
            ):
                current = Owner.read(self.file)
                if current is not None:
                    self._check_dead(current, _silence(self.file, aside))
                    before = current if _remove(self.file, current, aside) else None
        return before

    def _check_dead(self, owner: Owner, silent: float) -> None:
        """Raise unless the owner is dead; `silent` are the seconds since its last heartbeat."""
        if _is_dead(owner, silent):
            return
        assert owner.process is not None
        remote = owner.process.place != _place()
        later = (
            f". If that run has ended, delete {self.file}, or wait: its last heartbeat was {silent:.0f} s ago, and "
            f"after {STALE:.0f} s without one the folder is free"
        )
        raise DataError(
            f"{self.file.parent} is in use by another run, process {owner.process.id} on {owner.host}: wait for its "
            f"end, or name another folder{later if remote else ''}"
        )

    def begin(self) -> None:
        """Record the launch, once the folder contains files of this run."""
        self.owner = replace(self.owner, launch=self.launch)
        if self.first and self.launch:
            atomic.write(self.file, self.owner.text())

    def same(self) -> None:
        """Raise unless all processes of this run have the same folder."""
        process, end = processes.gather_objects(self.owner.process)[0], time.monotonic() + PATIENCE
        while (current := Owner.read(self.file)) is None or current.process != process:
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        sees = current is not None and current.process == process
        folder = str(self.file.parent.absolute())
        for rank, (is_same, its_folder) in enumerate(processes.gather_objects((sees, folder))):
            if not is_same:
                raise DataError(
                    f"rank {rank} has another work dir than rank 0, or does not see the files of rank 0 in it: "
                    f"{its_folder}. Give all processes the same folder, on a file system that all hosts share"
                )

    def check(self) -> None:
        """Raise if another run has taken the folder."""
        current = Owner.read(self.file)
        if current is None or current.process != self.owner.process:
            process = current.process if current else None
            user = f"process {process.id} on {current.host}" if current and process else "no run"
            raise DataError(
                f"{self.file.parent} is locked by {user} now, so this run ends without writing to it. Find out what "
                f"removed {self.file.name}"
            )

    def beat(self) -> None:
        """Touch the file every `BEAT` seconds until the run has ended."""
        while not self.ended.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self.file)

    def release(self, orderly: bool) -> None:
        """Remove the lock; after a failure that torchrun may restart, leave the launch in it."""
        self.ended.set()
        current = Owner.read(self.file)
        if current is None or current.process != self.owner.process:
            return
        if orderly or not self.owner.launch:
            self.file.unlink(missing_ok=True)
        else:
            atomic.write(self.file, replace(self.owner, process=None).text())


def current_owner(folder: Path) -> Owner | None:
    """Return the run that uses a work dir, or None if the folder is free."""
    file = folder / NAME
    owner = Owner.read(file)
    if owner is None:
        return None
    with contextlib.suppress(FileNotFoundError), atomic.temporary_folder(folder) as aside:
        return None if _is_dead(owner, _silence(file, aside)) else owner
    return None  # the run has ended meanwhile


def _silence(file: Path, aside: Path) -> float:
    """Return the seconds since the last heartbeat, by the file system's clock: a new file in the folder `aside`."""
    (aside / NAME).touch()
    return max(0.0, (aside / NAME).stat().st_mtime - file.lstat().st_mtime)


def _is_dead(owner: Owner, silent: float) -> bool:
    if owner.process is None or owner.process.has_exited:
        return True
    return owner.process.place != _place() and silent >= STALE


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[Ownership]:
    """Lock a work dir within the context."""
    ownership, orderly = Ownership(folder), False
    beats = threading.Thread(target=ownership.beat, daemon=True)
    if ownership.first:
        beats.start()
    try:
        ownership.same()
        yield ownership
        processes.wait()  # until no process can fail and be restarted
        orderly = True
    finally:
        if ownership.first:
            ownership.release(orderly)
            beats.join()


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Serialize the processes of one host (flock), so that none removes the file of another that just took the lock.

    Without flock, owner.json alone decides.
    """
    number, end = os.open(folder, os.O_RDONLY), time.monotonic() + PATIENCE
    try:
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.01)
        yield
    finally:
        os.close(number)


def _create(path: Path, text: str) -> bool:
    """Create a file, atomically; return False if the name exists."""
    with contextlib.suppress(FileExistsError), open(path, "x", encoding="utf-8") as file:
        file.write(text)
        return True
    return False


def _remove(path: Path, stale: Owner, aside: Path) -> bool:
    """Rename the file of a dead owner away, which only one process can do; put a newer owner's file back."""
    moved = aside / "moved"
    os.rename(path, moved)
    if Owner.read(moved) == stale:
        return True
    _create(path, moved.read_text())
    return False
