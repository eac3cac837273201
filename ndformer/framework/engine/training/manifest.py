"""The manifest of a sharded checkpoint: the place of every tensor in its files, and a digest of every file."""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import metadata as dcp
from torch.distributed.checkpoint.filesystem import _StorageInfo

from ndformer.framework import foreign
from ndformer.framework.engine.training.contents import MANIFEST
from ndformer.framework.system import archive, atomic

VALUES, SHARD = "values.pth", r"__\d+_\d+\.distcp"
DTYPES = {str(t).partition(".")[2]: t for t in vars(torch).values() if isinstance(t, torch.dtype)}


def write_manifest(folder: Path, metadata: dcp.Metadata, results: list[list[Any]]) -> None:
    """Write the manifest of a folder whose files are complete; `results` of Writer.write_data say where tensors are."""
    files = {VALUES: file_entry(folder / VALUES)}
    places: dict[dcp.MetadataIndex, _StorageInfo] = {}
    for result in (result for part in results for result in part):
        places[result.index], files[result.storage_data[0].relative_path] = result.storage_data
    tensors = {}
    for name, entry in metadata.state_dict_metadata.items():
        assert isinstance(entry, dcp.TensorStorageMetadata)
        chunks = []
        for chunk in entry.chunks:
            place = places[dcp.MetadataIndex(name, chunk.offsets)]
            inside = [place.relative_path, place.offset, place.length]
            chunks.append(dict(offset=list(chunk.offsets), shape=list(chunk.sizes), inside=inside))
        dtype = str(entry.properties.dtype).partition(".")[2]
        tensors[name] = dict(dtype=dtype, shape=list(entry.size), chunks=chunks)
    index: dict[str, Any] = dict(tensors=tensors, files=files)
    atomic.write(folder / MANIFEST, json.dumps(index | dict(digest=_digest(index))))


def file_entry(path: Path) -> dict[str, Any]:
    """Return the size and the digest of a file."""
    digest, size = hashlib.blake2b(digest_size=32), 0
    with foreign.opened(path) as file:
        while part := file.read(archive.CHUNK):
            digest.update(part)
            size += len(part)
    return dict(size=size, blake2b=digest.hexdigest())


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(manifest, sort_keys=True).encode(), digest_size=32).hexdigest()


def read_manifest(folder: Path, part: int = 0, parts: int = 1) -> dcp.Metadata:
    """Return the manifest of a folder, or raise if it is damaged or a file does not have its digest.

    With `parts`, only every parts-th file from `part` on is compared with its digest, and values.pth.
    """
    index = foreign.plain_json(folder / MANIFEST)
    if index.pop("digest") != _digest(index):
        raise ValueError(f"it is damaged: the digest of {MANIFEST} does not fit")
    files = index["files"]
    for name in {VALUES, *sorted(files)[part::parts]}:
        if not re.fullmatch(SHARD, name) and name != VALUES:
            raise ValueError(f"it names a file {name!r}")
        if not (folder / name).is_file():
            raise ValueError(f"its file {name} is missing")
        if file_entry(folder / name) != files[name]:
            raise ValueError(f"it is damaged: the digest of {name} does not fit")
    tensors: dict[str, Any] = {}
    places: dict[dcp.MetadataIndex, _StorageInfo] = {}
    for name, entry in index["tensors"].items():
        dtype, shape = DTYPES[entry["dtype"]], torch.Size(entry["shape"])
        chunks = []
        for chunk in entry["chunks"]:
            offset, size = torch.Size(chunk["offset"]), torch.Size(chunk["shape"])
            file, start, length = chunk["inside"]
            if not re.fullmatch(SHARD, file) or not 0 <= start <= start + length <= files[file]["size"]:
                raise ValueError(f"a part of {name} is in no file")
            if math.prod(size) * dtype.itemsize > length or any(o + s > n for o, s, n in zip(offset, size, shape)):
                raise ValueError(f"a part of {name} is larger than its place")
            places[dcp.MetadataIndex(name, offset)] = _StorageInfo(file, start, length)
            chunks.append(dcp.ChunkStorageMetadata(offset, size))
        if sum(math.prod(chunk.sizes) for chunk in chunks) != shape.numel():
            raise ValueError(f"the parts of {name} are not the tensor")
        tensors[name] = dcp.TensorStorageMetadata(dcp.TensorProperties(dtype), shape, chunks)
    return dcp.Metadata(tensors, storage_data=places)
