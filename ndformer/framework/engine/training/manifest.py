"""Reading and writing of checkpoint folders for torch.distributed.checkpoint, with an index in JSON: manifest.json.

torch's own index `.metadata` is a pickle, which can run code when it is read. It is not written here.
"""

import hashlib
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.futures import Future

from ndformer.framework import foreign
from ndformer.framework.engine.training.contents import MANIFEST
from ndformer.framework.system import archive, atomic

VALUES, SHARD = "values.pth", r"__\d+_\d+\.distcp"
DTYPES = {str(t).partition(".")[2]: t for t in vars(torch).values() if isinstance(t, torch.dtype)}


def write(folder: Path, metadata: Metadata, results: list[list[Any]]) -> None:
    """Write the index of a folder whose files are complete; the results of Writer.write_data have their places."""
    files = {VALUES: file_entry(folder / VALUES)}
    places: dict[MetadataIndex, _StorageInfo] = {}
    for result in (result for part in results for result in part):
        places[result.index], files[result.storage_data[0].relative_path] = result.storage_data
    tensors = {}
    for name, entry in metadata.state_dict_metadata.items():
        assert isinstance(entry, TensorStorageMetadata)
        chunks = []
        for chunk in entry.chunks:
            place = places[MetadataIndex(name, chunk.offsets)]
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


def read(folder: Path, part: int = 0, parts: int = 1) -> Metadata:
    """Return the index of a folder, or raise unless it is sound and the digests of the files fit.

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
    places: dict[MetadataIndex, _StorageInfo] = {}
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
            places[MetadataIndex(name, offset)] = _StorageInfo(file, start, length)
            chunks.append(ChunkStorageMetadata(offset, size))
        if sum(math.prod(chunk.sizes) for chunk in chunks) != shape.numel():
            raise ValueError(f"the parts of {name} are not the tensor")
        tensors[name] = TensorStorageMetadata(TensorProperties(dtype), shape, chunks)
    return Metadata(tensors, storage_data=places)


class Writer(FileSystemWriter):
    """Writes shards with their digests, then values and manifest on rank 0, then moves the folder to its place."""

    def __init__(self, temporary: Path, path: Path, previous: Path | None, values: dict[str, Any]) -> None:
        super().__init__(temporary / path.name)
        self.temporary, self.target, self.previous, self.values = temporary, path, previous, values
        self.half = temporary / path.name

    def write_data(self, plan: Any, planner: Any) -> Future[list[Any]]:
        results = super().write_data(plan, planner).wait()
        places = [result.storage_data for result in results]
        files = {name: file_entry(self.half / name) for name in {place.relative_path for place in places}}
        done: Future[list[Any]] = Future()
        done.set_result([replace(r, storage_data=(p, files[p.relative_path])) for r, p in zip(results, places)])
        return done

    def finish(self, metadata: Metadata, results: list[list[Any]]) -> None:
        with open(self.half / VALUES, "wb") as file:
            archive.save(archive.Sealing(file), self.values)
        write(self.half, metadata, results)
        for name in (MANIFEST, "."):
            atomic.sync(self.half / name)
        atomic.replace_folder(self.target, self.half, self.previous)
        self.temporary.rmdir()


class Reader(FileSystemReader):
    """Reads tensors without running code, from an index that is already read."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        super().__init__(folder)
        self.folder, self.metadata = folder, metadata

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return self.metadata

    def read_data(self, plan: Any, planner: Any) -> Future[None]:
        for request in plan.items:
            place = self.storage_data[request.storage_index]
            with foreign.opened(self.folder / place.relative_path) as file:
                file.seek(place.offset)
                tensor = archive.unsealed(io.BytesIO(file.read(place.length)), place.length)
            if not isinstance(tensor, Tensor):
                raise ValueError(f"{request.storage_index.fqn} is no tensor")
            target = planner.resolve_tensor(request).detach()
            target.copy_(narrow_tensor_by_index(tensor, request.storage_offsets, request.lengths))
            planner.commit_tensor(request, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done
