"""Tables of numbers in HDF5 files: none that lie in another file, and none that unpack to more than one file may take.

HDF5 follows links to other files, reads values from any file that a table names, looks for programs that unpack, and
inflates a chunk to whatever size comes out. So a table is looked at here before HDF5 reads it.
"""

import contextlib
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.decompress import frame_size
from ndformer.framework.foreign.files import check_size, opened, regular
from ndformer.framework.foreign.printable import printable

DEPTH, MOST = 4, 1000  # groups in groups, names in all
NOTE = 16  # numbers of an attribute
GZIP, SHUFFLE, FLETCHER, LZF = 1, 2, 3, 32000  # built into h5py
BLOSC, LZ4, BITSHUFFLE, ZSTD = 32001, 32004, 32008, 32015
PLUGINS = {BLOSC: "blosc", LZ4: "lz4", BITSHUFFLE: "bitshuffle", ZSTD: "zstd"}  # which hdf5plugin brings
ECF = 36559
RATIO = {GZIP: 1032, LZF: 88}  # bytes that come of one, at most
MOST_OF_ONE = 2000  # the same, a file's structure counted
LARGE = 2**26  # bytes that may come of a chunk unseen


class Table(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def tables(path: Path) -> dict[str, Table]:
    """The tables of numbers in a file by their names, as CD/events; what else it holds is passed over. A ValueError
    where it is damaged, or has a part in another file."""
    with _opened(path) as file:
        return {name: Table(one.shape, one.dtype) for name, one in _found(path, file).items()}


def read_tables(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some of them."""
    with _opened(path) as file:
        found = _found(path, file)
        chosen = {name: found[name] for name in names}
        for name, one in chosen.items():
            _check_packing(path, printable(name), one)
        check_size(path, sum(_size(one) for one in chosen.values()))
        return {name: np.asarray(one[()]) for name, one in chosen.items()}


def notes(path: Path) -> dict[str, Any]:
    """What a file says of itself in a few numbers or a word each: the attributes of its root."""
    found: dict[str, Any] = {}
    with _opened(path) as file:
        for name in list(file.attrs)[:MOST]:
            one = file.attrs.get_id(name)
            if one.shape is None or math.prod(one.shape) > NOTE:
                continue
            if _of_numbers(one.dtype) and one.get_storage_size() <= 64 * NOTE:
                found[name] = np.asarray(file.attrs[name])
            elif one.dtype.kind == "O" and one.shape == ():  # text of any length
                found[name] = str(file.attrs[name])[: 64 * NOTE]
    return found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise DataError(f"{path} needs h5py: pip install 'ndformer[hdf5]'") from None
    try:
        with h5py.File(regular(path), "r") as file:
            yield file
    except (ValueError, OSError, MemoryError):
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"its structure is damaged: {' '.join(str(error).split())[:200]}") from None  # as h5py has it
    except RuntimeError as error:
        if isinstance(error, DataError):
            raise
        raise ValueError(f"its structure is damaged: {' '.join(str(error).split())[:200]}") from None


def _found(path: Path, file: Any) -> dict[str, Any]:
    """All tables of numbers, by a walk that never leaves the file."""
    import h5py

    found: dict[str, Any] = {}
    groups, seen, size = [("", file, 0)], 0, path.stat().st_size
    while groups:
        place, group, depth = groups.pop()
        for name in group:
            seen += 1
            if seen > MOST:
                raise ValueError(f"it has more than {MOST} names")
            link = group.get(name, getlink=True)
            called = place + name
            if isinstance(link, h5py.ExternalLink):
                raise ValueError(f"its {printable(called)} is a link to another file, and such are not followed")
            if not isinstance(link, h5py.HardLink):
                continue
            one = group[name]
            if isinstance(one, h5py.Group) and depth < DEPTH:
                groups.append((called + "/", one, depth + 1))
            elif isinstance(one, h5py.Dataset) and _here(called, one, h5py) and _of_numbers(one.dtype):
                if _size(one) > MOST_OF_ONE * size:
                    raise ValueError(
                        f"its {printable(called)} says to hold {_size(one)} bytes, more than such a file can"
                    )
                found[called] = one
    return found


def _here(name: str, table: Any, h5py: Any) -> bool:
    """Whether it lies in the file; asked before its shape, for which HDF5 opens the files of a virtual one."""
    plan = table.id.get_create_plist()
    if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count():
        raise ValueError(f"its {printable(name)} lies in another file, and such are not opened")
    return table.shape is not None


def _of_numbers(dtype: np.dtype[Any]) -> bool:
    if dtype.names:
        return all(_of_numbers(dtype[name]) and dtype[name].names is None for name in dtype.names)
    return dtype.kind in "biufS" and dtype.subdtype is None and dtype.itemsize > 0


def _size(table: Any) -> int:
    return math.prod(table.shape) * table.dtype.itemsize


def _check_packing(path: Path, name: str, table: Any) -> None:
    """Its chunks unpack to what they should, by what is known here."""
    plan = table.id.get_create_plist()
    filters = [plan.get_filter(i)[0] for i in range(plan.get_nfilters())]
    for one in filters:
        if one in PLUGINS:
            _plugin(name, PLUGINS[one])
        elif one == ECF:
            raise ValueError(
                f"its {name} is packed by ECF, Prophesee's own filter: have Metavision's tools write it as .raw or .dat"
            )
        elif one not in (SHUFFLE, FLETCHER, *RATIO):
            raise ValueError(f"its {name} is packed by filter {one}, which is not known here: save it anew with gzip")
    packing = [i for i, one in enumerate(filters) if one not in (SHUFFLE, FLETCHER)]
    if len(packing) > 1 or (packing and set(filters[packing[0] + 1 :]) - {FLETCHER}):
        raise ValueError(f"its {name} is packed several times over: save it anew with gzip")
    if table.chunks is None:
        return
    whole = math.prod(table.chunks) * table.dtype.itemsize
    check_size(path, _size(table) + whole)
    if packing and filters[packing[0]] in PLUGINS:
        _, _, options, _ = plan.get_filter(packing[0])
        if filters[packing[0]] != BITSHUFFLE or any(options[4:5]):  # which can go without packing
            _check_frames(path, name, table, filters[packing[0]], whole)
    large: list[Any] = []  # HDF5 unpacks a chunk to whatever comes out
    if packing and filters[packing[0]] in RATIO:
        ratio = RATIO[filters[packing[0]]]
        table.id.chunk_iter(lambda chunk: large.append(chunk.chunk_offset) if chunk.size * ratio > LARGE else None)
    for place in large:
        if LZF in filters:
            raise ValueError(f"its {name} has large chunks packed by lzf: save it anew with gzip")
        _, packed = table.id.read_direct_chunk(place)
        with contextlib.suppress(zlib.error):  # HDF5 says that it is damaged
            if len(zlib.decompressobj().decompress(packed, whole + 5)) > whole + 4:  # 4: of a checksum
                raise ValueError(f"a chunk of its {name} unpacks to more than its {whole} bytes")


def _check_frames(path: Path, name: str, table: Any, filter: int, whole: int) -> None:
    """Each chunk of a table says in its first bytes how much it unpacks to, and its unpacker believes it."""
    places: list[tuple[int, int]] = []
    table.id.chunk_iter(lambda chunk: places.append((chunk.byte_offset, chunk.size)) if not chunk.filter_mask else None)
    with opened(path) as file:
        for place, size in places:
            file.seek(place)
            begin = file.read(min(size, 18))
            if filter == ZSTD:
                says = frame_size(begin.ljust(18, b"\0"), size)
            else:
                says = int.from_bytes(begin[4:8], "little") if filter == BLOSC else int.from_bytes(begin[:8], "big")
            if says > whole + 4:  # 4: of a checksum
                raise ValueError(f"a chunk of its {name} unpacks to more than its {whole} bytes")


def _plugin(name: str, filter: str) -> None:
    """Registers what unpacks such tables; HDF5 would look for it where the environment says."""
    try:
        import hdf5plugin  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            f"its {name} is packed by {filter}: pip install 'ndformer[hdf5]', or save it with gzip"
        ) from None
