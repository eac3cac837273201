"""A model as a graph that runs without ndformer, for batches of any length and images of any size (torch.export, ONNX).

found = graph(model, images)          # two or more of them; their size is an example
save(path, found)                     # .pt2 or .onnx
worst(path, model, [images, larger])  # how far the file is from the model, run without it
"""

import contextlib
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils._pytree import tree_unflatten

from ndformer.framework.adapter import Adapter
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.system import atomic

ENDINGS = (".pt2", ".onnx")
METADATA = "metadata.json"  # in a .pt2


def graph(model: nn.Module, example: Tensor) -> ExportedProgram:
    """What model(x) computes in evaluation, for any number of samples like the two or more of `example`, and of a model
    of patches for any height and width that they divide. Gives the tensors that the head names in `exported`."""
    was_training = model.training
    told = _TensorOutputs(model) if isinstance(model, TokenModel) else model
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of its own code
            return torch.export.export(told.eval(), (example,), dynamic_shapes=(_free(model, example),))
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"the model does not become a graph ({why}): classifiers, detectors and segmenters of images do, with any "
            "encoding of ours whose fullgraph is True; of others export the weights, as .safetensors"
        ) from error
    finally:
        model.train(was_training)


class _TensorOutputs(nn.Module):
    """A model that says tensors alone, as a graph must."""

    def __init__(self, model: TokenModel) -> None:
        super().__init__()
        self.model, self.head = model, cast(Head, model.head)

    def forward(self, inputs: Tensor) -> Tensor | dict[str, Tensor]:
        return self.head.exported(self.model(inputs))


def _free(model: nn.Module, example: Tensor) -> dict[int, Any]:
    """The axes of `example` whose length a graph leaves open: batch, height and width."""
    adapters = list(model.modalities.values()) if isinstance(model, TokenModel) else []
    sides = cast(Adapter, adapters[0]).patch_sides if len(adapters) == 1 else None
    last = example.dim() - 2
    named = zip(("rows", "columns"), sides or ())
    return {0: Dim("batch")} | {last + i: side * Dim(name) for i, (name, side) in enumerate(named)}


def save(path: Path, found: ExportedProgram, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a .pt2, which torch.export.load reads, or an .onnx file.

    `metadata`, JSON values by name, says how to use the graph: entries of an .onnx file's metadata, each as JSON, and
    the extra file METADATA of a .pt2.
    """
    with atomic.replacing(path) as half:
        if path.suffix == ".pt2":
            extra = {METADATA: json.dumps(metadata, indent=1)} if metadata else None
            torch.export.save(found, half, extra_files=extra)
        else:
            _exporter()
            names = list(_by_name(_outputs(found)))
            try:
                with _quiet():
                    made: Any = torch.onnx.export(
                        found, dynamo=True, verbose=False, input_names=["inputs"], output_names=names
                    )
            except torch.onnx.OnnxExporterError as error:
                unknown = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(error))
                why = f"has no {unknown[1]}" if unknown else "does not know all that it computes"
                raise DataError(f"the model does not become .onnx, which {why}: write a .pt2") from error
            made.model.metadata_props.update({name: json.dumps(value) for name, value in (metadata or {}).items()})
            made.save(str(half))


@torch.no_grad()
def max_difference(path: Path, model: TokenModel, batches: Sequence[Tensor]) -> float | None:
    """The largest difference between what a file and the model say of these, as a share of the largest value said
    where that is above 1 (boxes are in pixels). None: there is no onnxruntime to run it."""
    run, told, found = _runner(path), _TensorOutputs(model).eval(), 0.0
    if run is None:
        return None
    for inputs in batches:
        said = _by_name(told(inputs))
        for name, given in run(inputs).items():
            apart = (given - said[name]).abs().max() / said[name].abs().max().clamp(min=1)
            found = max(found, float(apart.nan_to_num(nan=torch.inf)))
    return found


def _runner(path: Path) -> Callable[[Tensor], dict[str, Tensor]] | None:
    """What runs the file, where it is installed."""
    if path.suffix == ".pt2":
        module = torch.export.load(path).module()
        return lambda inputs: _by_name(module(inputs))
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(path)
    names = [one.name for one in session.get_outputs()]
    return lambda inputs: dict(zip(names, map(torch.from_numpy, session.run(None, dict(inputs=inputs.numpy())))))


def _outputs(found: ExportedProgram) -> Any:
    """What it gives, with a number in the place of each tensor."""
    return tree_unflatten(range(len(found.graph_signature.user_outputs)), cast(Any, found.call_spec.out_spec))


def _by_name(said: Any) -> dict[str, Any]:
    return said if isinstance(said, dict) else dict(logits=said)


def can_save(path: Path) -> None:
    """Make the folder of the file, and raise unless the packages that it takes are installed."""
    atomic.make_parent(path)
    if path.suffix == ".onnx":
        _exporter()


def _exporter() -> None:
    try:
        import onnxscript  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError(".onnx takes a package that is not installed: pip install 'ndformer[onnx]'") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch warns of its own code, and of operators of torchvision that nobody has asked for."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
