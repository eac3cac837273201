"""A safe reader of numeric tables in HDF5 files, within the memory limit and without access to other files.

HDF5 follows links to other files, reads values from any file that a table names, loads filter plugins, and decompresses
a chunk to any size. So a table is checked here before HDF5 reads it.
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
from ndformer.framework.foreign.files import check_size
from ndformer.framework.foreign.mounts import member, opened, regular, status
from ndformer.framework.foreign.printable import printable

DEPTH, MAX_NAMES = 4, 1000  # nesting of groups; names in a file
NOTE = 16  # values of an attribute
GZIP, SHUFFLE, FLETCHER, LZF = 1, 2, 3, 32000  # built into h5py
BLOSC, LZ4, BITSHUFFLE, ZSTD = 32001, 32004, 32008, 32015
PLUGINS = {BLOSC: "blosc", LZ4: "lz4", BITSHUFFLE: "bitshuffle", ZSTD: "zstd"}  # provided by hdf5plugin
ECF = 36559
RATIO = {GZIP: 1032, LZF: 88}  # highest compression ratios
MAX_EXPANSION = 2000  # bytes of a table per byte of the file
LARGE = 2**26  # bytes; chunks that could become larger are decompressed here first


class Table(NamedTuple):
    """Shape and type of a table in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def tables(path: Path) -> dict[str, Table]:
    """Return shape and type of the numeric tables in a file by name, such as CD/events; skip other content.

    Raises ValueError if the file is damaged or refers to another file.
    """
    with _opened(path) as file:
        return {name: Table(table.shape, table.dtype) for name, table in _numeric_tables(path, file).items()}


def read_tables(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the tables of these names."""
    with _opened(path) as file:
        found = _numeric_tables(path, file)
        chosen = {name: found[name] for name in names}
        for name, table in chosen.items():
            _check_packing(path, printable(name), table)
        check_size(path, sum(_size(table) for table in chosen.values()))
        return {name: np.asarray(table[()]) for name, table in chosen.items()}


def notes(path: Path) -> dict[str, Any]:
    """Read the short attributes of a file's root group: numbers and texts."""
    found: dict[str, Any] = {}
    with _opened(path) as file:
        for name in list(file.attrs)[:MAX_NAMES]:
            attribute = file.attrs.get_id(name)
            if attribute.shape is None or math.prod(attribute.shape) > NOTE:
                continue
            if _is_numeric(attribute.dtype) and attribute.get_storage_size() <= 64 * NOTE:
                found[name] = np.asarray(file.attrs[name])
            elif attribute.dtype.kind == "O" and attribute.shape == ():  # text of any length
                found[name] = str(file.attrs[name])[: 64 * NOTE]
    return found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise DataError(f"{path} needs h5py: pip install 'ndformer[hdf5]'") from None
    try:
        with h5py.File(regular(path) if member(path) is None else opened(path), "r") as file:
            yield file
    except (ValueError, OSError, MemoryError, DataError):
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RuntimeError) as error:
        raise ValueError(f"its structure is damaged: {' '.join(str(error).split())[:200]}") from None


def _numeric_tables(path: Path, file: Any) -> dict[str, Any]:
    """Return all numeric tables by name, from a traversal that never leaves the file."""
    import h5py

    found: dict[str, Any] = {}
    groups, count, size = [("", file, 0)], 0, status(path).st_size
    while groups:
        prefix, group, depth = groups.pop()
        for name in group:
            count += 1
            if count > MAX_NAMES:
                raise ValueError(f"expected at most {MAX_NAMES} names, got more")
            link = group.get(name, getlink=True)
            full_name = prefix + name
            if isinstance(link, h5py.ExternalLink):
                raise ValueError(f"{printable(full_name)} links to another file; expected a table in the file itself")
            if not isinstance(link, h5py.HardLink):
                continue
            item = group[name]
            if isinstance(item, h5py.Group) and depth < DEPTH:
                groups.append((full_name + "/", item, depth + 1))
            elif isinstance(item, h5py.Dataset) and _is_local(full_name, item, h5py) and _is_numeric(item.dtype):
                if _size(item) > MAX_EXPANSION * size:
                    raise ValueError(
                        f"{printable(full_name)} declares {_size(item)} bytes, more than {MAX_EXPANSION} times "
                        "the size of the file"
                    )
                found[full_name] = item
    return found


def _is_local(name: str, table: Any, h5py: Any) -> bool:
    """Raise ValueError for a table in another file; call it before reading the shape, which opens such files."""
    plan = table.id.get_create_plist()
    if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count():
        raise ValueError(f"{printable(name)} is stored in another file; expected a table in the file itself")
    return table.shape is not None


def _is_numeric(dtype: np.dtype[Any]) -> bool:
    if dtype.names:
        return all(_is_numeric(dtype[name]) and dtype[name].names is None for name in dtype.names)
    return dtype.kind in "biufS" and dtype.subdtype is None and dtype.itemsize > 0


def _size(table: Any) -> int:
    return math.prod(table.shape) * table.dtype.itemsize


def _check_packing(path: Path, name: str, table: Any) -> None:
    """Raise ValueError unless the filters are known and each chunk decompresses to its size."""
    plan = table.id.get_create_plist()
    filters = [plan.get_filter(i)[0] for i in range(plan.get_nfilters())]
    for number in filters:
        if number in PLUGINS:
            _plugin(name, PLUGINS[number])
        elif number == ECF:
            raise ValueError(
                f"its {name} is packed by ECF, Prophesee's own filter: have Metavision's tools write it as .raw or .dat"
            )
        elif number not in (SHUFFLE, FLETCHER, *RATIO):
            raise ValueError(
                f"its {name} is packed by filter {number}, which is not known here: save it anew with gzip"
            )
    packing = [i for i, number in enumerate(filters) if number not in (SHUFFLE, FLETCHER)]
    if len(packing) > 1 or (packing and set(filters[packing[0] + 1 :]) - {FLETCHER}):
        raise ValueError(f"its {name} is packed several times over: save it anew with gzip")
    if table.chunks is None:
        return
    chunk_size = math.prod(table.chunks) * table.dtype.itemsize
    check_size(path, _size(table) + chunk_size)
    if packing and filters[packing[0]] in PLUGINS:
        _, _, options, _ = plan.get_filter(packing[0])
        if filters[packing[0]] != BITSHUFFLE or any(options[4:5]):  # bitshuffle may not compress
            _check_frames(path, name, table, filters[packing[0]], chunk_size)
    large: list[Any] = []  # offsets of chunks that HDF5 might decompress to any size
    if packing and filters[packing[0]] in RATIO:
        ratio = RATIO[filters[packing[0]]]
        table.id.chunk_iter(lambda chunk: large.append(chunk.chunk_offset) if chunk.size * ratio > LARGE else None)
    for place in large:
        if LZF in filters:
            raise ValueError(f"its {name} has large chunks packed by lzf: save it anew with gzip")
        _, packed = table.id.read_direct_chunk(place)
        with contextlib.suppress(zlib.error):  # HDF5 reports the damage
            if len(zlib.decompressobj().decompress(packed, chunk_size + 5)) > chunk_size + 4:  # 4: of a checksum
                raise ValueError(f"a chunk of its {name} unpacks to more than its {chunk_size} bytes")


def _check_frames(path: Path, name: str, table: Any, filter: int, chunk_size: int) -> None:
    """Raise ValueError if a chunk claims to decompress to more than its size: the decoder allocates that much."""
    places: list[tuple[int, int]] = []
    table.id.chunk_iter(lambda chunk: places.append((chunk.byte_offset, chunk.size)) if not chunk.filter_mask else None)
    with opened(path) as file:
        for place, size in places:
            file.seek(place)
            begin = file.read(min(size, 18))
            if filter == ZSTD:
                claim = frame_size(begin.ljust(18, b"\0"), size)
            else:
                claim = int.from_bytes(begin[4:8], "little") if filter == BLOSC else int.from_bytes(begin[:8], "big")
            if claim > chunk_size + 4:  # 4: of a checksum
                raise ValueError(f"a chunk of its {name} unpacks to more than its {chunk_size} bytes")


def _plugin(name: str, filter: str) -> None:
    """Register the filter of hdf5plugin, so that HDF5 does not search the path that the environment names."""
    try:
        import hdf5plugin  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            f"its {name} is packed by {filter}: pip install 'ndformer[hdf5]', or save it with gzip"
        ) from None
