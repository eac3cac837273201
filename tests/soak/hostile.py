"""Make hostile files of every kind that is read, on demand: small files that claim any size."""

import gzip
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.framework.foreign.test_pickles import HOSTILE
from tests.framework.foreign.test_pictures import BOMBS, chunk, png, progressive
from tests.framework.foreign.test_plain import EPS

LARGE = 200 * 2**20
MATLAB = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
ENDINGS = ("ply", "npy", "npz", "h5", "avi", "dat", "bin", "mat", "off", "txt", "aedat", "pcd")
ENDINGS += ("las", "laz", "obj", "stl", "glb")
File = tuple[str, str, bytes | Callable[[Path], object]]  # kind, name, content or what writes it


def repeated(head: bytes, part: bytes, count: int, end: bytes = b"") -> Callable[[Path], object]:
    """What writes a large file, which nobody keeps in memory."""
    return lambda path: path.write_bytes(head + part * count + end)


def begun(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _pickles(outside: Path) -> Iterator[File]:
    for number, content in enumerate(HOSTILE.values()):
        yield "pickle", f"p{number}", content
    for name in ("os\nsystem", "builtins\neval", "posix\nsystem", "subprocess\nPopen", "builtins\nopen"):
        trap = f"touch {outside}/ran" if "system" in name or "Popen" in name else f"open('{outside}/ran', 'w')"
        yield "pickle", f"q{name.split()[1]}", f"\x80\x02c{name}\nX".encode("latin-1") + _counted(trap) + b"\x85R."


def _pictures() -> Iterator[File]:
    for name, (content, _) in BOMBS.items():
        yield "picture", name, content
    for name in ("photo.jpg", "photo.png", "photo.tif"):
        yield "picture", "eps_" + name, EPS
    yield "picture", "long.jpg", progressive(20_000)
    yield "picture", "svg.png", b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>"
    text = zlib.compress(bytes(2**28))
    yield "picture", "text.png", png(0, 8, np.zeros((4, 4), np.uint8), (b"zTXt", b"a\0\0" + text))
    yield "picture", "profile.png", png(0, 8, np.zeros((4, 4), np.uint8), (b"iCCP", b"a\0\0" + text))
    yield "picture", "frames.gif", b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + b",\0" * 10**5


def sides(count: int) -> Iterator[File]:
    """Pictures of extreme sides, up to more pixels than one may have."""
    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = 2 ** rng.uniform(10, 27)
        long = min(2**21, 2 ** rng.uniform(math.log2(pixels) / 2, math.log2(pixels)))
        width, height = (round(long), max(1, round(pixels / long)))[:: rng.choice([-1, 1])]
        depth, kind = ((1, 0), (8, 0), (8, 2))[number % 3 if width * height < 2**22 else 0]
        row = bytes(1 + -(-width * depth * (3 if kind == 2 else 1) // 8))

        def write(path: Path, row: bytes = row, shape: tuple[int, ...] = (width, height, depth, kind)) -> None:
            chunks = {b"IHDR": struct.pack(">LLBBBBB", *shape, 0, 0, 0)}
            chunks |= {b"IDAT": zlib.compress(row * shape[1], 1), b"IEND": b""}
            path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, body) for name, body in chunks.items()))

        yield "sides", f"{width}x{height}.png", write


def _texts(outside: Path) -> Iterator[File]:
    """YAML, JSON, XML and lists."""
    calls = ("object/apply:os.system", "object/new:os.system", "object/apply:subprocess.check_call")
    for i, call in enumerate(calls):
        yield "yaml", f"call{i}.yaml", f"names: !!python/{call} ['touch {outside}/ran']".encode()
    aliases = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))
    for name, text in dict(deep="[" * 10**5, aliases=aliases, open="names: [a", nul="names: \0", none="").items():
        yield "yaml", f"{name}.yaml", text.encode()
    yield "yaml", "escapes.yaml", b'names: ["\\e[2J", "a\\nb: 0 bad", 3]'
    values = ("9" * 400, "1e400", "NaN", "null", '"\\u001b[2J"', "[[]]", "-1")
    boxes = (
        '{"images": [{"id": 1, "file_name": "%s", "width": 8, "height": 8}], "categories": [{"id": 1, "name": "a"}], '
    )
    boxes += '"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 1, %s]}]}'
    for i, value in enumerate(values):
        yield "json", f"value{i}.json", (boxes % ("a.jpg", value)).encode()
    for i, name in enumerate(("../../../etc/passwd", f"{outside}/secret", "a\\u0000b", "\\u001b[2J")):
        yield "json", f"name{i}.json", (boxes % (name, "1")).encode()
    shapes = dict(deep="[" * 10**6, digits="9" * 10**7, list="[]", text='"a"')
    for name, text in shapes.items():
        yield "json", f"{name}.json", text.encode()
    yield "json", "many.json", repeated(b"[[]", b",[]", 3 * 10**7, b"]")
    entity = f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{outside}/secret">]><annotation><object><name>&x;</name></object>'
    laughs = "".join(f"<!ENTITY l{i} '{f'&l{i - 1};' * 10}'>" for i in range(1, 12))
    yield "xml", "entity.xml", (entity + "</annotation>").encode()
    yield "xml", "laughs.xml", f"<!DOCTYPE a [<!ENTITY l0 'ha'>{laughs}]><a>&l11;</a>".encode()
    yield "xml", "deep.xml", b"<a>" * 10**6
    yield "xml", "many.xml", b"<annotation>" + b"<object/>" * 10**6 + b"</annotation>"
    yield "xml", "encoding.xml", b"<?xml version='1.0' encoding='none-such'?><a/>"
    for i, line in enumerate(
        (f"../{outside.name}/secret", f"{outside}/secret", "\x1b[2J\x1b[31m", "a\0b", "9" * 10**5)
    ):
        yield "list", f"list{i}.txt", f"{line}\n".encode() * 3
    yield "list", "missing.txt", "".join(f"box_{i:07}\n" for i in range(10**6)).encode()
    yield "list", "letters.txt", b"b" * 60_000
    yield "list", "bytes.txt", b"\xff\xfe\x00\x01"
    yield "list", "zeros.txt", lambda path: os.truncate(begun(path, b""), LARGE)


def _counted(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


def _tables(secret: Path, pipe: Path) -> Iterator[File]:
    def hdf5(make: Callable[..., object], *args: str) -> Callable[[Path], object]:
        def write(path: Path) -> None:
            with h5py.File(path, "w") as file:
                make(file, *args)

        return write

    def bomb(file: Any, where: str) -> None:
        table = file.create_dataset(where, (2**20,), "u1", chunks=(2**20,), compression="gzip")
        engine = zlib.compressobj(9)
        table.id.write_direct_chunk((0,), b"".join(engine.compress(bytes(2**24)) for _ in range(64)) + engine.flush())

    def virtual(file: Any, where: str, source: str) -> None:
        layout = h5py.VirtualLayout((8,), "u1")
        layout[:] = h5py.VirtualSource(source, "x", (8,))
        file.create_virtual_dataset(where, layout)

    references: dict[str, Callable[[Any, str, str], object]] = dict(
        link=lambda file, where, source: file.__setitem__(where, h5py.ExternalLink(source, "x")),
        virtual=virtual,
        external=lambda file, where, source: file.create_dataset(where, (8,), "u1", external=[(source, 0, 8)]),
    )
    contents: dict[str, Callable[[Any, str], object]] = dict(
        bomb=bomb,
        soft=lambda file, where: file.__setitem__(where, h5py.SoftLink("/" + where)),
        claim=lambda file, where: file.create_dataset(where, (10**12,), "u1", chunks=(10**6,), compression="gzip"),
        text=lambda file, where: file.__setitem__(where, ["a", "bc"]),
        scale=lambda file, where: file.create_dataset(where, data=[1, 2], scaleoffset=0),
    )
    for where in ("x", "data", "events/x", "label"):
        for name, refer in references.items():
            for target in (secret, pipe):
                yield "hdf5", f"{name}{where[0]}{target.name}.h5", hdf5(refer, where, str(target))
        for name, make in contents.items():
            yield "hdf5", f"{name}{where[0]}.h5", hdf5(make, where)
    yield "hdf5", "itself.h5", hdf5(lambda f: f.__setitem__("events", f["/"]))


def _npy(shape: tuple[int, ...], descr: str = "'<u2'", content: bytes = bytes(8)) -> bytes:
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + content


def _arrays() -> Iterator[File]:
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


def _matlab() -> Iterator[File]:
    engine = zlib.compressobj(9)
    inflating = b"".join(engine.compress(bytes(2**24)) for _ in range(256)) + engine.flush()
    element = struct.pack("<II", 15, len(inflating)) + inflating
    yield "mat", "bomb.mat", MATLAB + element
    yield "mat", "bombs.mat", MATLAB + element * 3
    yield "mat", "lie.mat", MATLAB + struct.pack("<II", 14, 2**32 - 1) + bytes(64)
    yield "mat", "deep.mat", MATLAB + struct.pack("<II", 14, 8) * 1000


def _idx() -> Iterator[File]:
    zeros = gzip.compress(bytes(2**26)) * 8
    for name, sides in dict(a=(2**31 - 1,) * 3, b=(60000, 28, 28), c=(-1, -1, 1), d=(2**16, 2**8, 2**5)).items():
        body = bytes((0, 0, 8, 3)) + struct.pack(">3i", *sides)
        yield "gz", f"{name}.gz", gzip.compress(body + bytes(2**20))
        yield "gz", f"{name}-idx3-ubyte", body
        yield "gz", f"{name}many.gz", gzip.compress(body) + zeros


def _events() -> Iterator[File]:
    three, two = b"% evt 3.0\n% end\n", b"% evt 2.0\n% end\n"
    begin = np.array([8 << 12, 5, 3 << 12], "<u2").tobytes()
    for name, word in dict(zeros=0, vectors=4 << 12 | 0xFFF, highs=8 << 12, columns=2 << 12).items():
        yield "events", f"{name}3.raw", repeated(three + begin, struct.pack("<H", word), 10**7)
    for name, word in dict(zeros=0, highs=8 << 28).items():
        yield "events", f"{name}2.raw", repeated(two, struct.pack("<I", word), 5 * 10**6)
    large = lambda content: lambda path: os.truncate(begun(path, content), 900 * 2**20)
    heads = {"a.raw": three, "b.raw": two, "c.dat": b"", "d.bin": b"", "e.aedat": b"#!AER-DAT2.0\n"}
    for name, content in heads.items():
        yield "events", "large_" + name, large(content)
    yield "events", "comments.dat", repeated(b"", b"% x\n", 10**6)
    yield "events", "comments.raw", repeated(b"", b"% x\n", 3 * 10**6)
    yield "events", "comment.dat", repeated(b"", b"%", 10**7)
    packet = struct.pack("<HHIIIIII", 1, 1, 8, 4, 0, 0, 0, 0)
    yield "events", "packets.aedat", b"#!AER-DAT3.1\n#!END-HEADER\n" + packet * 100_000
    lie = struct.pack("<HHIIIIII", 1, 1, 8, 4, 0, 2**32 - 1, 2**32 - 1, 0)
    yield "events", "lie.aedat", b"#!AER-DAT3.1\n#!END-HEADER\n" + lie


def _clouds(secret: Path) -> Iterator[File]:
    for order in ("ascii", "binary_little_endian"):
        for rows in (10**12, 10**18, 2 * 10**6):
            for property in ("list uchar int vertex_indices", "list int float v", "float x", ""):
                text = f"ply\nformat {order} 1.0\nelement face {rows}\n"
                text += f"property {property}\n" * bool(property) + "end_header\n"
                yield "ply", f"{order[0]}{rows}{len(property)}.ply", text.encode() + bytes(10**6)
    yield "ply", "header.ply", repeated(b"ply\n", b"comment x\n", 10**6)
    for ending in ("txt", "xyz", "off"):
        head = b"OFF\n" if ending == "off" else b""
        yield "text", f"line.{ending}", repeated(head, b"1 ", 10**8)
        yield "text", f"short.{ending}", repeated(head, b"1\n", 3 * 10**7)
        yield "text", f"rows.{ending}", repeated(head, b"1 2 3\n", 2 * 10**6)
        yield "text", f"digits.{ending}", repeated(head, b"9", 10**7)
    head = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nPOINTS {}\nDATA {}\n"
    for kind in ("ascii", "binary", "binary_compressed"):
        yield "pcd", f"{kind}.pcd", head.format(10**18, kind).encode() + b"\xff" * 10**5
    yield "pcd", "bomb.pcd", head.format(10**8, "binary_compressed").encode() + struct.pack("<II", 9, 12 * 10**8)
    for ending in ("las", "laz"):
        begin = b"LASF".ljust(94, b"\1") + struct.pack("<HIIBHI", 227, 300, 2**32 - 1, 131, 34, 2**32 - 1)
        yield "las", f"many.{ending}", begin.ljust(10**5, b"\1")
    files = f"mtllib {secret}\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl a\nf 1 2 3\n"
    yield "model", "names.obj", files.encode()
    scene = json.dumps(dict(asset=dict(version="2.0"), buffers=[dict(uri=str(secret), byteLength=9)], scenes=[{}]))
    glb = struct.pack("<4sII", b"glTF", 2, 20 + len(scene)) + struct.pack("<I4s", len(scene), b"JSON")
    yield "model", "names.glb", glb + scene.encode()
    yield "model", "count.stl", bytes(80) + struct.pack("<I", 2**32 - 1) + bytes(500)
    yield "text", "counts.off", b"OFF\n999999999999 999999999999 0\n1 2 3\n"
    yield "text", "face.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n999999999 0 1 2\n"


def _videos(secret: Path, pipe: Path) -> Iterator[File]:
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


def crafted(outside: Path, wanted: Callable[[str], bool]) -> Iterator[File]:
    """Those of the kinds that are wanted; `outside` is where nothing may be opened or made."""
    secret, pipe = outside / "secret", outside / "pipe"
    makers: list[tuple[tuple[str, ...], Callable[[], Iterator[File]]]] = [
        (("fifo", "device", "folder", "zeros", "escapes", "empty"), _places),
        (("pickle",), lambda: _pickles(outside)),
        (("picture",), _pictures),
        (("yaml", "json", "xml", "list"), lambda: _texts(outside)),
        (("hdf5",), lambda: _tables(secret, pipe)),
        (("npy", "npz"), _arrays),
        (("mat",), _matlab),
        (("gz",), _idx),
        (("events",), _events),
        (("ply", "text", "pcd", "las", "model"), lambda: _clouds(secret)),
        (("video",), lambda: _videos(secret, pipe)),
    ]
    for kinds, make in makers:
        if any(map(wanted, kinds)):
            yield from (one for one in make() if wanted(one[0]))


def _places() -> Iterator[File]:
    """What is no file, holds nothing, or has a name that forges lines."""
    for ending in ENDINGS:
        name = f"a.{ending}"
        yield "fifo", name, lambda path: os.mkfifo(path)
        yield "device", name, lambda path: path.symlink_to("/dev/zero")
        yield "folder", name, lambda path: path.mkdir()
        yield "zeros", name, lambda path: os.truncate(begun(path, b""), LARGE)
        yield "escapes", f"\x1b[31m\n{name}", b"\x1b[2J"
        yield "empty", name, b""
