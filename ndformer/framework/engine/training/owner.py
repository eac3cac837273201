"""One owner of a work dir (a lock file with a heartbeat): a second run is refused, one that was killed is recognised.

owner.json is made aside and linked into place, which only one of several can do, also on shared file systems where
locks of the system (flock) are granted to all or to none. On its own host a process that is gone is known by its id and
the time of its start. Seen from elsewhere it is gone when it has not touched its file for `STALE` seconds, by the clock
of the file system. Should two have a folder all the same, the first ends before it writes another checkpoint.
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

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic, processes

NAME = "owner.json"
BEAT, STALE = 20.0, 300.0  # seconds
PATIENCE = 10.0  # seconds until what one host has written is seen by the others


@dataclass(frozen=True)
class Process:
    place: str  # where its id is its own: a host since it was started, a container
    id: int
    start: int | None  # when it was started, in the system's count; None: not told

    @property
    def gone(self) -> bool:
        """For sure: of other places nothing is known."""
        now = _start(self.id)
        return self.place == _place() and (now == 0 or now is not None and now != self.start)


def this(number: int | None = None) -> Process:
    number = os.getpid() if number is None else number
    return Process(_place(), number, _start(number))


def _place() -> str:
    boot, numbers = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    known = [boot.read_text().strip(), os.readlink(numbers)] if boot.exists() and numbers.is_symlink() else []
    return " ".join([platform.node(), *known])


def _start(number: int) -> int | None:
    """When the process was started; 0: there is none; None: there is one, but nothing else is told of it."""
    try:
        os.kill(number, 0)
        state, *rest = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except ProcessLookupError:
        return 0
    except OSError:  # somebody else's, or a system without /proc
        return None
    return 0 if state in "ZX" else int(rest[18])  # Z: all that is left of it is an exit code


@dataclass(frozen=True)
class Owner:
    host: str
    process: Process | None = None  # None: none any more
    launch: tuple[Process, ...] = ()  # the agents of torchrun that started what is in the folder

    @classmethod
    def read(cls, path: Path) -> Owner | None:
        try:
            if path.is_symlink():
                raise ValueError
            content = foreign.plain_json(path)
            process, launch = content["process"], content["launch"]
            return cls(content["host"], process and Process(**process), tuple(Process(**one) for one in launch))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):  # half written, where nothing can be linked, or not ours
            return cls("an unknown host", Process("", 0, None))

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


class Ownership:
    """A work dir is this run's alone. `again`: the same launch had it before, for torchrun starts processes again."""

    def __init__(self, folder: Path) -> None:
        self.file, self.first = folder / NAME, processes.rank() == 0
        self.own = Owner(platform.node(), this())
        self.launch = tuple(
            one for one in processes.gather_objects(processes.is_launched() and this(os.getppid())) if one
        )
        self.ended, before = threading.Event(), None
        if self.first:
            folder.mkdir(parents=True, exist_ok=True)
            with _one_at_a_time(folder):
                before = self._take()
                atomic.clear(folder)
        mine = processes.is_restarted() and before is not None and not {*before.launch}.isdisjoint(self.launch)
        self.again = processes.gather_objects(mine)[0]

    def _take(self) -> Owner | None:
        """Whose the folder was, if it was anyone's."""
        while True:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with (
                contextlib.suppress(FileNotFoundError),
                atomic.temporary_folder(self.file.parent) as aside,
            ):  # cleared by an owner
                made, before = aside / NAME, None
                made.write_text(self.own.text(), encoding="utf-8")
                while not _appeared(made, self.file):
                    there = Owner.read(self.file)
                    if there is not None and self._ended(there, made) and _taken_away(self.file, there, aside):
                        before = there
                return before

    def _ended(self, there: Owner, made: Path) -> bool:
        """Whether nobody is at work any more, or else a sentence."""
        if there.process is None or there.process.gone:
            return True
        silent = max(0.0, made.stat().st_mtime - self.file.lstat().st_mtime)
        far = there.process.place != _place()
        if far and silent >= STALE:
            return True
        later = (
            f". If that has ended, take {self.file} away, or come back: {silent:.0f} s ago it gave a sign of life, "
            f"after {STALE:.0f} s without one its folder is free"
        )
        raise DataError(
            f"{self.file.parent} is in use by another run, process {there.process.id} on {there.host}: wait for its "
            f"end, or name another folder{later if far else ''}"
        )

    def begin(self) -> None:
        """What is in the folder from here on is of this launch."""
        self.own = replace(self.own, launch=self.launch)
        if self.first and self.launch:
            atomic.write(self.file, self.own.text())

    def same(self) -> None:
        """A sentence where the processes of this run have not all the same folder."""
        process, end = processes.gather_objects(self.own.process)[0], time.monotonic() + PATIENCE
        while (there := Owner.read(self.file)) is None or there.process != process:
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        sees = there is not None and there.process == process
        folder = str(self.file.parent.absolute())
        for rank, (right, its) in enumerate(processes.gather_objects((sees, folder))):
            if not right:
                raise DataError(
                    f"rank {rank} has another work dir than rank 0, or does not see what that writes there: {its}. "
                    "Give all the same folder, on a file system that all hosts share"
                )

    def check(self) -> None:
        """A sentence where the folder was taken from this run."""
        there = Owner.read(self.file)
        if there is None or there.process != self.own.process:
            whose = f"that of process {there.process.id} on {there.host}" if there and there.process else "nobody's"
            raise DataError(
                f"{self.file.parent} is {whose} now, so this run writes nothing more there: see who took it"
            )

    def beat(self) -> None:
        """A sign of life, now and then, until it has ended."""
        while not self.ended.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self.file)

    def release(self, orderly: bool) -> None:
        """What torchrun may start again finds whose the folder was."""
        self.ended.set()
        there = Owner.read(self.file)
        if there is None or there.process != self.own.process:
            return
        if orderly or not self.own.launch:
            self.file.unlink(missing_ok=True)
        else:
            atomic.write(self.file, replace(self.own, process=None).text())


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[Ownership]:
    ownership, orderly = Ownership(folder), False
    beats = threading.Thread(target=ownership.beat, daemon=True)
    if ownership.first:
        beats.start()
    try:
        ownership.same()
        yield ownership
        processes.wait()  # until no process of them can fail, and be started again
        orderly = True
    finally:
        if ownership.first:
            ownership.release(orderly)
            beats.join()


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Those of one host who look whose it is take turns (flock), so that nobody takes away a file that has just become
    another's. Others, and those of a system without such locks, have the file alone to go by."""
    number, end = os.open(folder, os.O_RDONLY), time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        os.close(number)


def _appeared(made: Path, path: Path) -> bool:
    """The file has that name, which none had: one step, whoever tries it at a time."""
    try:
        os.link(made, path)
    except FileExistsError:
        return made.stat().st_nlink == 2  # it has, and NFS lost the answer
    except FileNotFoundError:  # cleared by an owner meanwhile
        raise
    except OSError:  # a file system without links
        text = made.read_bytes()
        try:
            number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        with open(number, "wb") as file:
            file.write(text)
    return True


def _taken_away(path: Path, stale: Owner, aside: Path) -> bool:
    """Only one of several can rename it; where it was another's, who came first, it is given back."""
    taken = aside / "taken"
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, taken)
        if Owner.read(taken) == stale:
            return True
        _appeared(taken, path)
    return False
