"""Hostile files over all readers: no code run, no program started, no file opened outside, no crash, no hang, no flood
of memory, one sentence.

python -m tests.soak.foreign --mutations 6     crafted files, and so many damaged ones of each format; a table of kinds
python -m tests.soak.foreign --kinds video hdf5
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gzip
import io
import json
import os
import pickle
import resource
import signal
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ndformer.framework.backbones.ptv3 import pointcept
from ndformer.framework.data.describe import describe
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.video.formats.files import VideoFile
from tests.modalities.events.conftest import WRITERS, random_events
from tests.soak import fuzz, fuzz_video

SECONDS, BYTES = 20, 2**30
ROOT = Path(__file__).parents[2]
LARGE = 200 * 2**20
TEXTS = ("images", "pairs", "yaml", "xml")  # their readers are another part of the gate


class Case(NamedTuple):
    kind: str
    name: str
    call: Callable[[], object]


# ------------------------------------------------------------------------------------------------------ hostile files


def crafted(home: Path, outside: Path) -> Iterator[tuple[str, str, bytes | Callable[[Path], object]]]:
    """Kind, name, and the content or what writes it."""
    secret, pipe = outside / "secret", outside / "pipe"
    zeros = lambda path: os.truncate(_begun(path, b""), LARGE)
    for name in ("a.ply", "b.npy", "c.npz", "d.h5", "e.avi", "f.dat", "g.bin", "h.mat", "i.off", "j.txt", "k.aedat"):
        yield "fifo", name, lambda path: os.mkfifo(path)
        yield "device", name, lambda path: path.symlink_to("/dev/zero")
        yield "folder", name, lambda path: path.mkdir()
        yield "zeros", name, zeros
        yield "escapes", f"\x1b[31m\n{name}", b"\x1b[2J"
        yield "empty", name, b""
    yield from _pickles(outside)
    yield from _tables(secret, pipe)
    yield from _packed()
    yield from _events()
    yield from _clouds()
    yield from _videos(secret, pipe)


def _begun(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _pickles(outside: Path) -> Iterator[tuple[str, str, Any]]:
    from tests.framework.foreign.test_pickles import HOSTILE

    for number, content in enumerate(HOSTILE.values()):
        yield "pickle", f"p{number}", content
    for name in ("os\nsystem", "builtins\neval", "posix\nsystem", "subprocess\nPopen", "builtins\nopen"):
        trap = f"touch {outside}/ran" if "system" in name or "Popen" in name else f"open('{outside}/ran', 'w')"
        yield "pickle", f"q{name.split()[1]}", f"\x80\x02c{name}\nX".encode("latin-1") + _counted(trap) + b"\x85R."


def _counted(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


def _tables(secret: Path, pipe: Path) -> Iterator[tuple[str, str, Any]]:
    import h5py

    def hdf5(make: Callable[[Any], object]) -> Callable[[Path], object]:
        def write(path: Path) -> None:
            with h5py.File(path, "w") as file:
                make(file)

        return write

    def bomb(file: Any, size: int, where: str) -> None:
        table = file.create_dataset(where, (2**20,), "u1", chunks=(2**20,), compression="gzip")
        engine = zlib.compressobj(9)
        table.id.write_direct_chunk((0,), b"".join(engine.compress(bytes(2**24)) for _ in range(size)) + engine.flush())

    def virtual(file: Any, source: Path, where: str) -> None:
        layout = h5py.VirtualLayout((8,), "u1")
        layout[:] = h5py.VirtualSource(str(source), "x", (8,))
        file.create_virtual_dataset(where, layout)

    for where in ("x", "data", "events/x", "label"):
        for target in (secret, pipe):
            yield (
                "hdf5",
                f"link{where[0]}{target.name}.h5",
                hdf5(lambda f, w=where, t=target: f.__setitem__(w, h5py.ExternalLink(str(t), "x"))),
            )
            yield "hdf5", f"virtual{where[0]}{target.name}.h5", hdf5(lambda f, w=where, t=target: virtual(f, t, w))
            yield (
                "hdf5",
                f"external{where[0]}{target.name}.h5",
                hdf5(lambda f, w=where, t=target: f.create_dataset(w, (8,), "u1", external=[(str(t), 0, 8)])),
            )
        yield "hdf5", f"bomb{where[0]}.h5", hdf5(lambda f, w=where: bomb(f, 64, w))
        yield "hdf5", f"soft{where[0]}.h5", hdf5(lambda f, w=where: f.__setitem__(w, h5py.SoftLink("/" + w)))
        yield (
            "hdf5",
            f"claim{where[0]}.h5",
            hdf5(lambda f, w=where: f.create_dataset(w, (10**12,), "u1", chunks=(10**6,), compression="gzip")),
        )
        yield "hdf5", f"text{where[0]}.h5", hdf5(lambda f, w=where: f.__setitem__(w, ["a", "bc"]))
        yield "hdf5", f"scale{where[0]}.h5", hdf5(lambda f, w=where: f.create_dataset(w, data=[1, 2], scaleoffset=0))
    yield "hdf5", "itself.h5", hdf5(lambda f: f.__setitem__("events", f["/"]))


def _npy(shape: tuple[int, ...], descr: str = "'<u2'", content: bytes = bytes(8)) -> bytes:
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + content


def _packed() -> Iterator[tuple[str, str, Any]]:
    fields = "[('x', '<u2'), ('y', '<u2'), ('t', '<i8'), ('p', 'u1')]"
    lies = {"many": _npy((10**12,)), "rows": _npy((10**12,), fields), "wide": _npy((2, 10**15)), "none": _npy((-5,))}
    lies |= {"objects": _npy((1,), "'O'"), "empty": _npy((10**12,), "'V0'"), "code": _npy((1,), "__import__('os')")}
    lies |= {"deep": _npy((1,), "(" * 90), "points": _npy((10**11, 3), "'<f4'"), "version": b"\x93NUMPY\x09\x00xx"}
    for name, content in lies.items():
        yield "npy", f"{name}.npy", content
        yield "npy", f"{name}_bbox.npy", content

        def packed(path: Path, content: bytes = content) -> None:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for column in "xytp":
                    archive.writestr(f"{column}.npy", content)

        yield "npz", f"{name}.npz", packed

    def zip_bomb(path: Path) -> None:
        packed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        with packed as archive, archive.open("x.npy", "w", force_zip64=True) as entry:
            entry.write(_npy((2**31,), "'u1'", b""))
            for _ in range(32):
                entry.write(bytes(2**24))

    def crowd(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for i in range(30_000):
                archive.writestr(f"{i}.npy", b"")

    yield "npz", "bomb.npz", zip_bomb
    yield "npz", "crowd.npz", crowd
    engine = zlib.compressobj(9)
    inflating = b"".join(engine.compress(bytes(2**24)) for _ in range(256)) + engine.flush()
    element = struct.pack("<II", 15, len(inflating)) + inflating
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    yield "mat", "bomb.mat", head + element
    yield "mat", "bombs.mat", head + element * 3
    yield "mat", "lie.mat", head + struct.pack("<II", 14, 2**32 - 1) + bytes(64)
    yield "mat", "deep.mat", head + struct.pack("<II", 14, 8) * 1000
    for name, sides in dict(a=(2**31 - 1,) * 3, b=(60000, 28, 28), c=(-1, -1, 1), d=(2**16, 2**8, 2**5)).items():
        body = bytes((0, 0, 8, 3)) + struct.pack(">3i", *sides)
        yield "gz", f"{name}.gz", gzip.compress(body + bytes(2**20))
        yield "gz", f"{name}-idx3-ubyte", body
        yield "gz", f"{name}many.gz", gzip.compress(body) + gzip.compress(bytes(2**26)) * 8


def _events() -> Iterator[tuple[str, str, Any]]:
    three, two = b"% evt 3.0\n% end\n", b"% evt 2.0\n% end\n"
    begin = np.array([8 << 12, 5, 3 << 12], "<u2").tobytes()
    for name, word in dict(zeros=0, vectors=4 << 12 | 0xFFF, highs=8 << 12, columns=2 << 12).items():
        yield "events", f"{name}3.raw", three + begin + np.full(10**7, word, "<u2").tobytes()
    for name, word in dict(zeros=0, highs=8 << 28).items():
        yield "events", f"{name}2.raw", two + np.full(5 * 10**6, word, "<u4").tobytes()
    large = lambda content: lambda path: os.truncate(_begun(path, content), 900 * 2**20)
    heads = {"a.raw": three, "b.raw": two, "c.dat": b"", "d.bin": b"", "e.aedat": b"#!AER-DAT2.0\n"}
    for name, content in heads.items():
        yield "events", "large_" + name, large(content)
    yield "events", "comments.dat", b"% x\n" * 10**6
    yield "events", "comment.dat", b"%" * 10**7
    packet = struct.pack("<HHIIIIII", 1, 1, 8, 4, 0, 0, 0, 0)
    yield "events", "packets.aedat", b"#!AER-DAT3.1\n#!END-HEADER\n" + packet * 100_000
    lie = struct.pack("<HHIIIIII", 1, 1, 8, 4, 0, 2**32 - 1, 2**32 - 1, 0)
    yield "events", "lie.aedat", b"#!AER-DAT3.1\n#!END-HEADER\n" + lie


def _clouds() -> Iterator[tuple[str, str, Any]]:
    for order in ("ascii", "binary_little_endian"):
        for rows in (10**12, 10**18, 2 * 10**6):
            for property in ("list uchar int vertex_indices", "list int float v", "float x", ""):
                text = f"ply\nformat {order} 1.0\nelement face {rows}\n"
                text += f"property {property}\n" * bool(property) + "end_header\n"
                yield "ply", f"{order[0]}{rows}{len(property)}.ply", text.encode() + bytes(10**6)
    yield "ply", "header.ply", b"ply\n" + b"comment x\n" * 10**6
    for ending in ("txt", "xyz", "off"):
        head = b"OFF\n" if ending == "off" else b""
        yield "text", f"line.{ending}", head + b"1 " * 10**8
        yield "text", f"short.{ending}", head + b"1\n" * 3 * 10**7
        yield "text", f"rows.{ending}", head + b"1 2 3\n" * 2 * 10**6
        yield "text", f"digits.{ending}", head + b"9" * 10**7 + b" 1 2\n"
    yield "text", "counts.off", b"OFF\n999999999999 999999999999 0\n1 2 3\n"
    yield "text", "face.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n999999999 0 1 2\n"


def _videos(secret: Path, pipe: Path) -> Iterator[tuple[str, str, Any]]:
    for ending in ("avi", "mp4", "mkv"):
        for target in (secret, pipe, "http://127.0.0.1:9/x", "tcp://127.0.0.1:9"):
            name = f"{Path(str(target)).name}{len(str(target)) % 97}"
            lists = dict(
                concat=f"ffconcat version 1.0\nfile '{target}'\n",
                m3u8=f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{target}\n#EXT-X-ENDLIST\n",
                dash=f"<MPD xmlns='urn:mpeg:dash:schema:mpd:2011'><BaseURL>{target}</BaseURL></MPD>",
                sdp="v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n",
            )
            for kind, text in lists.items():
                yield "video", f"{kind}{name}.{ending}", text.encode()
                yield "video", f"avi{kind}{name}.{ending}", b"RIFF    AVI LIST" + text.encode()
    sides = struct.pack(">II", 0xFFFF0000, 0xFFFF0000)
    yield "video", "large.mp4", b"\0\0\0\x14ftypisom\0\0\0\0isom" + struct.pack(">I4s", 100, b"moov") + sides * 12


def checkpoints(folder: Path, outside: Path) -> Iterator[Path]:
    good = folder / "good.pth"
    torch.save(dict(model=dict(w=torch.zeros(2**16)), format=2), good)
    content = good.read_bytes()
    for n in range(30):
        path = folder / f"c{n}.pth"
        path.write_bytes(fuzz.mutated(content, np.random.default_rng(n)))
        yield path
    for n, body in enumerate((f"cos\nsystem\n(S'touch {outside}/ran'\ntR.".encode(), b"\x80\x02]", b"", b"PK\x05\x06")):
        (folder / f"d{n}.pth").write_bytes(body)
        yield folder / f"d{n}.pth"
    with zipfile.ZipFile(good) as given, zipfile.ZipFile(folder / "deflated.pth", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in given.namelist():
            packed.writestr(name, given.read(name) if "data/0" not in name else bytes(2**29))
    yield folder / "deflated.pth"


# ------------------------------------------------------------------------------------------------------ what is watched


class Watch:
    """Who opens a file of a folder, from Python or not (inotify)."""

    def __init__(self, folder: Path) -> None:
        self.libc = ctypes.CDLL(None)
        self.file = self.libc.inotify_init1(os.O_NONBLOCK)
        self.libc.inotify_add_watch(self.file, bytes(folder), 0x20 | 0x100)  # IN_OPEN, IN_CREATE

    def seen(self) -> bool:
        try:
            return bool(os.read(self.file, 4096))
        except BlockingIOError:
            return False


def forbid(roots: tuple[str, ...], tell: Callable[[str], object]) -> None:
    """From now on, this process starts nothing, talks to nobody and opens nothing outside of `roots`."""

    def hook(event: str, given: tuple[Any, ...]) -> None:
        own = event == "subprocess.Popen" and given[1][1:3] == ["-I", "-c"] and "video.formats.child" in given[1][3]
        if own or event in ("socket.gethostname",):
            return
        started = ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen", "pty.spawn")
        if event in started or event.startswith("socket."):
            tell(f"{event} {str(given)[:80]}")
        if event == "open" and isinstance(given[0], (str, bytes)):
            path = os.path.abspath(os.fsdecode(given[0]))
            if not path.startswith(roots):
                tell(f"opened {path}")

    sys.addaudithook(hook)


def judged(call: Callable[[], object], folder: Path) -> str:
    """In a process of its own: read, said, or what it did that it must not."""
    begin, (reader, writer) = time.monotonic(), os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        roots = (str(folder), str(ROOT), sys.prefix, sys.base_prefix, "/proc", "/sys", "/dev")
        forbid(roots, lambda what: os.write(writer, f"FORBIDDEN {what}\n".encode()))
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                call()
            told = "read"
        except DataError as error:
            told = "said" if str(error).isprintable() else f"UNPRINTABLE {error!r}"
        except BaseException as error:
            told = f"TRACEBACK {type(error).__name__}: {str(error)[:150]!r}"
        most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) * 1024
        os.write(writer, (told + (f" MEMORY {most / 2**20:.0f} MiB" if most > BYTES else "")).encode()[:2000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as file:
        told = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        told += f" {'HANG' if code == -signal.SIGALRM else f'CRASH {code}'} after {time.monotonic() - begin:.0f} s"
    return told


def cases(folder: Path, outside: Path, mutations: int, kinds: list[str] | None) -> Iterator[Case]:
    home = folder / "files"
    home.mkdir()
    for number, (kind, name, made) in enumerate(crafted(home, outside)):
        if kinds and kind not in kinds:
            continue
        place = home / str(number)
        place.mkdir()
        path = place / name
        _begun(path, made) if isinstance(made, bytes) else made(path)
        yield Case(kind, name, lambda path=path: describe(path, 5))
        if kind == "video":
            yield Case(kind, name + " by decord", lambda path=path: VideoFile(path, "decord").frames([0, 1]))
        if path.is_file() and not path.is_symlink():
            path.unlink()  # disks are small
    for name, write in WRITERS.items():
        write(home / name, random_events(300))
        content = (home / name).read_bytes()
        for n in range(mutations):
            path = home / f"{n}{name}"
            path.write_bytes(fuzz.mutated(content, np.random.default_rng(n)))
            yield Case("mutated events", path.name, lambda path=path: describe(path, 5))
    for name, content in fuzz_video.originals(home).items():
        for n in range(mutations):
            path = home / f"{n}{name}"
            path.write_bytes(fuzz.mutated(content, np.random.default_rng(n)))
            yield Case("mutated video", path.name, lambda path=path: describe(path, 5))
    for name in fuzz.READERS:
        for n in range(mutations):
            place = folder / f"{name}{n}"
            place.mkdir()
            kind = "mutated set" + (" (texts)" if name in TEXTS else "")
            yield Case(kind, f"{name}{n}", lambda name=name, n=n, place=place: fuzz.fuzz(name, 3, n, place))
    for path in checkpoints(folder, outside):
        yield Case("checkpoint", path.name, lambda path=path: checkpoint.load(path))
        yield Case("pointcept's", path.name, lambda path=path: pointcept.read(path))


def run(kinds: list[str] | None, mutations: int) -> tuple[dict[str, Counter[str]], list[str]]:
    """Outcomes by kind, and a line for each that must not be."""
    DATASETS.get("CIFAR10")
    with contextlib.suppress(DataError):
        describe(ROOT / "none", 1)  # imports what a case would
    table: dict[str, Counter[str]] = defaultdict(Counter)
    bad = []
    with tempfile.TemporaryDirectory() as inside, tempfile.TemporaryDirectory() as outer:
        outside = Path(outer)
        (outside / "secret").write_bytes(bytes(64))
        os.mkfifo(outside / "pipe")
        (outside / "code.json").write_text(json.dumps(pickle.DEFAULT_PROTOCOL))
        watch = Watch(outside)
        for case in cases(Path(inside), outside, mutations, kinds):
            watch.seen()  # what writing it opened
            if kinds and case.kind not in kinds:
                continue
            told = judged(case.call, Path(inside))
            if watch.seen():
                told += " OUTSIDE"
            table[case.kind][told if told in ("read", "said") else "bad"] += 1
            if told not in ("read", "said"):
                bad.append(f"{case.kind} {case.name!r}: {told}")
                print(bad[-1], flush=True)
    return table, bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=6, help="damaged files of each format")
    parser.add_argument("--kinds", nargs="+", help="these alone")
    given = parser.parse_args()
    begin = time.monotonic()
    table, bad = run(given.kinds, given.mutations)
    print(f"{'kind':24}{'said':>6}{'read':>6}{'bad':>6}")
    for kind, tally in table.items():
        print(f"{kind:24}{tally['said']:6}{tally['read']:6}{tally['bad']:6}")
    print(f"{sum(t.total() for t in table.values())} in {time.monotonic() - begin:.0f} s, {len(bad)} of them bad")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
