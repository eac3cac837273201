"""Sharded checkpoints: a folder into which all processes write their shards while training continues.

torch.distributed.checkpoint writes the shards `__RANK_NUMBER.distcp`: weights, their average, states of the optimizer.
`values.pth` has everything else, from rank 0, such as the tensors in the states of hooks, and `manifest.json` the place
of every tensor in the shards and a digest of every file. torch's own index `.metadata` is a pickle,
which can run code when it is read: it is not written, and a tensor is read by system/archive.py, which runs none.
"""

from __future__ import annotations

import copy
import io
import operator
import shutil
import tempfile
import warnings
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import metadata as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.tensor import distribute_tensor
from torch.futures import Future

from ndformer.framework import foreign
from ndformer.framework.engine.training import contents
from ndformer.framework.engine.training.contents import MANIFEST
from ndformer.framework.engine.training.manifest import VALUES, file_entry, read_manifest, write_manifest
from ndformer.framework.errors import DataError
from ndformer.framework.system import archive, atomic, processes

TENSOR_KEYS = ("model", "ema", "optimizer")  # keys of a checkpoint whose tensors have the same names on all ranks
ALONE = "torch.distributed is disabled"  # torch's warning where a single process saves or loads, which is intended


class Saver:
    """Writes the checkpoints of a run in a background thread, one after the other, with its own gloo process group.

    After save_async(), call wait_staged() before anything changes the saved tensors: an optimizer step, or an average
    that replaces the weights. Call wait_written() before relying on the folder: it raises the errors of the thread.
    Call close() at the end.
    """

    def __init__(self) -> None:
        self.group: Any = dist.new_group(backend="gloo") if processes.is_distributed() else None
        self.stager = new_stager()
        self.staged: Any = None  # futures of the last save
        self.written: Any = None
        self.path = self.temporary = Path()

    def save_async(self, path: Path, content: dict[str, Any], previous: str | None = None) -> None:
        """Begin to write a folder, which replaces `path` once it is complete; the old one gets the name `previous`.

        All processes call it with the same names of tensors under TENSOR_KEYS, and with DTensors of which each has a
        shard. Other content, such as the states of hooks, may differ: that of rank 0 is written.
        """
        self.wait_written()
        if torch.__version__ < "2.13":  # a stager works once: it clears its table of types
            self.stager.close()
            self.stager = new_stager()
        tensors, values = split(dict(format=contents.FORMAT) | content)
        groups = content.get("optimizer", {}).get("param_groups", [])
        for name in content["model"].keys() - {name for group in groups for name in group["names"]}:
            tensors[f"model/{name}"] = tensors[f"model/{name}"].clone()  # a buffer, which the next forward pass changes
        self.path = path
        self.temporary = self._begin(path)
        old = None if previous is None else path.with_name(previous)
        writer = Writer(self.temporary, path, old, values)
        if torch.cuda.is_available():  # the stream that copies does not wait for the optimizer's step
            torch.cuda.current_stream().synchronize()
        warnings.filterwarnings("ignore", ALONE)  # not catch_warnings: the thread that writes warns too
        response: Any = async_save(tensors, storage_writer=writer, process_group=self.group, async_stager=self.stager)
        self.staged, self.written = response.staging_completion, response.upload_completion

    def _begin(self, path: Path) -> Path:
        """Create a temporary folder beside `path`, on rank 0; return its path on all processes."""
        outcome: list[Any] = [None]
        if processes.rank() == 0:
            try:
                outcome = [tempfile.mkdtemp(prefix=".", suffix=atomic.ENDING, dir=path.parent)]
            except OSError as error:
                outcome = [contents.unwritable(path, str(error.strerror))]
        if self.group is not None:
            dist.broadcast_object_list(outcome, 0, self.group)
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return Path(outcome[0])

    def wait_staged(self) -> None:
        """Wait until the saved tensors are copied, so that they may change."""
        if self.staged is not None:
            self.staged.result()

    def wait_written(self) -> None:
        """Wait until the folder is complete and in its place, or raise DataError if a process could not write it."""
        written, self.written = self.written, None
        try:
            if written is not None:
                written.result()
        except CheckpointException as error:
            if processes.rank() == 0:
                shutil.rmtree(self.temporary, ignore_errors=True)
            cause = next(iter(error.failures.values()))[0]
            if isinstance(cause, DataError) or not isinstance(cause, (OSError, RuntimeError)):
                raise cause from None
            # torch reports a full disk as an error of its own, of several lines
            why = cause.strerror if isinstance(cause, OSError) else str(cause).partition("\n")[0]
            raise contents.unwritable(self.path, str(why)) from error

    def close(self) -> None:
        try:
            self.wait_written()
        finally:
            self.stager.close()


def new_stager() -> DefaultStager:
    """Return a stager that copies tensors to the CPU in a thread, from a GPU into pinned memory."""
    cuda = torch.cuda.is_available()
    return DefaultStager(StagingOptions(cuda, False, True, cuda))


def split(content: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Split nested dicts into tensors by name, and dict(values=everything else, places=the keys to each tensor).

    The tensors are those under TENSOR_KEYS and all DTensors. The state of an optimizer is stored by the names of its
    parameters.
    """
    tensors: dict[str, Tensor] = {}
    places: dict[str, list[Any]] = {}

    def without_tensors(value: Any, keys: list[Any]) -> Any:
        if isinstance(value, Tensor):
            value, is_copied = value.detach(), keys[0] not in TENSOR_KEYS
            value = value.clone() if is_copied else value  # a hook may change it before the next optimizer step
            if is_copied and not processes.is_sharded(value):
                return value
            name = "/".join(map(str, keys))
            tensors[name], places[name] = value, keys
            return None
        if isinstance(value, dict):
            return {key: without_tensors(inner, [*keys, key]) for key, inner in value.items()}
        return copy.deepcopy(value)  # it is written while training goes on and changes it

    return tensors, dict(values=without_tensors(_rename_states(content, "params", "names"), []), places=places)


def _rename_states(content: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """Return the content with the states of the optimizer by `names` of parameters instead of numbers `params`."""
    if not content.get("optimizer"):
        return content
    state = content["optimizer"]
    keys = {key: value for group in state["param_groups"] for key, value in zip(group[old], group[new])}
    return content | dict(optimizer=state | dict(state={keys[key]: value for key, value in state["state"].items()}))


def load(path: Path, templates: dict[str, Tensor] | None = None) -> dict[str, Any]:
    """Load the content of a folder to the CPU, or raise DataError if a file is missing or damaged.

    `templates` are DTensors by parameter name: all processes call it, and tensors of a parameter's name and shape are
    loaded as such shards. It does not matter how many processes saved them.
    """
    folder = path if path.exists() else atomic.replaced_path(path)
    content, problem = {}, ""
    try:
        shared = templates is not None
        metadata = read_manifest(folder, *((processes.rank(), processes.count()) if shared else ()))
        content = _content(folder, metadata, templates or {})
    except (Exception, CheckpointException) as error:
        if isinstance(error, CheckpointException):
            error = next(iter(error.failures.values()))[0]
        problem = " ".join(str(error).split()) or type(error).__name__
    problems = [problem] if templates is None else processes.gather_objects(problem)
    problem = next(filter(None, problems), "")
    if problem:
        raise DataError(f"{path} is not a checkpoint that can be read safely ({problem:.200}). Give another one")
    return content


def _content(folder: Path, metadata: dcp.Metadata, templates: dict[str, Tensor]) -> dict[str, Any]:
    stored, sealed = archive.read(folder / VALUES)
    if not sealed:
        raise ValueError(f"the digest of {VALUES} is missing")
    content, places, tensors = stored["values"], stored["places"], {}
    for name, entry in metadata.state_dict_metadata.items():
        assert isinstance(entry, dcp.TensorStorageMetadata)
        template = _template(places[name], entry.size, templates)
        zeros = partial(torch.zeros, entry.size) if template is None else partial(torch.zeros_like, template)
        tensors[name] = zeros(dtype=entry.properties.dtype)
    warnings.filterwarnings("ignore", ALONE)
    load_tensors(tensors, storage_reader=Reader(folder, metadata), no_dist=True)
    for name, tensor in tensors.items():
        *keys, last = places[name]
        reduce(operator.getitem, keys, content)[last] = tensor
    return _rename_states(content, "names", "params")


def distribute(content: dict[str, Any], templates: dict[str, Tensor]) -> dict[str, Any]:
    """Return the content of a file, with the tensors of a parameter's name and shape as shards."""
    return _rename_states(_distribute(_rename_states(content, "params", "names"), templates, []), "names", "params")


def _distribute(value: Any, templates: dict[str, Tensor], keys: list[Any]) -> Any:
    if isinstance(value, dict):
        return {key: _distribute(inner, templates, [*keys, key]) for key, inner in value.items()}
    template: Any = _template(keys, value.shape, templates) if isinstance(value, Tensor) else None
    if template is None:
        return value
    return distribute_tensor(value.to(template.device), template.device_mesh, template.placements, src_data_rank=None)


def _template(keys: list[Any], shape: torch.Size, templates: dict[str, Tensor]) -> Tensor | None:
    """Return the DTensor of a parameter's name and shape; None if there is none, as for an optimizer's step."""
    template = next((templates[key] for key in keys if key in templates), None)
    return template if template is not None and template.shape == shape and processes.is_sharded(template) else None


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

    def finish(self, metadata: dcp.Metadata, results: list[list[Any]]) -> None:
        with open(self.half / VALUES, "wb") as file:
            archive.save(archive.Sealing(file), self.values)
        write_manifest(self.half, metadata, results)
        for name in (MANIFEST, "."):
            atomic.sync(self.half / name)
        atomic.replace_folder(self.target, self.half, self.previous)
        self.temporary.rmdir()


class Reader(FileSystemReader):
    """Reads tensors without running code, with the metadata of a manifest that was read before."""

    def __init__(self, folder: Path, metadata: dcp.Metadata) -> None:
        super().__init__(folder)
        self.folder, self.metadata = folder, metadata

    def read_metadata(self, *args: Any, **kwargs: Any) -> dcp.Metadata:
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
