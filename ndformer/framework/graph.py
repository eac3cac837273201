"""Export of models to .pt2 (torch.export) and .onnx graphs, for any batch size and any image size.

program = graph(model, images)                  # 2 or more example images
save(path, program)                             # .pt2 or .onnx
max_difference(path, model, [images, larger])   # the largest deviation of the file's outputs from the model
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
from torch.fx.experimental import _config as fx_config
from torch.utils._pytree import tree_unflatten

from ndformer.framework.adapter import Adapter
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.system import atomic

ENDINGS = (".pt2", ".onnx")
METADATA = "metadata.json"  # in a .pt2


def graph(model: nn.Module, example: Tensor) -> ExportedProgram:
    """Export model(x) in evaluation mode as a graph that returns the tensors of Head.exported().

    The batch size is dynamic (`example` has 2 or more samples); so are height and width of images, in multiples of the
    patch size.
    """
    if isinstance(model, TokenModel) and isinstance(model.head, Head):
        model.head.check_exportable()
    modes = {part: part.training for part in model.modules()}
    module = _TensorOutputs(model) if isinstance(model, TokenModel) else model

    def export(oblivious: bool) -> ExportedProgram:
        thin = cast(Any, fx_config).patch(backed_size_oblivious=oblivious)
        with torch.no_grad(), thin, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from torch about its own code
            return torch.export.export(module.eval(), (example,), dynamic_shapes=(_dynamic_axes(model, example),))

    try:
        try:
            return export(True)  # for images of one or two patches on a side, which the graph refuses otherwise
        except Exception:  # some encodings compare a size with 1
            return export(False)
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"the model cannot be exported as a graph ({why}). Supported are classifiers, detectors, segmenters "
            "and regressors of images with an encoding whose fullgraph is True. Export weights as .safetensors instead"
        ) from error
    finally:
        _restore(modes)


def _restore(modes: dict[nn.Module, bool]) -> None:
    """Set each module's mode, which may be another one than its parent's."""
    for part, training in modes.items():
        part.training = training


class _TensorOutputs(nn.Module):
    """A model whose outputs are only tensors, as required in a graph."""

    def __init__(self, model: TokenModel) -> None:
        super().__init__()
        self.model, self.head = model, cast(Head, model.head)

    def forward(self, inputs: Tensor) -> Tensor | dict[str, Tensor]:
        return self.head.exported(self.model(inputs))


def _dynamic_axes(model: nn.Module, example: Tensor) -> dict[int, Any]:
    """Return the dynamic axes of `example`: batch, height and width."""
    adapters = list(model.modalities.values()) if isinstance(model, TokenModel) else []
    sides = cast(Adapter, adapters[0]).patch_sides if len(adapters) == 1 else None
    last = example.dim() - 2
    axes = zip(("rows", "columns"), sides or ())
    return {0: Dim("batch")} | {last + i: side * Dim(name) for i, (name, side) in enumerate(axes)}


def save(path: Path, program: ExportedProgram, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a .pt2 file, which torch.export.load reads, or an .onnx file.

    `metadata`, JSON values by name, is stored in the metadata of an .onnx file or in the extra file METADATA of a .pt2.
    """
    with atomic.replacing(path) as half:
        if path.suffix == ".pt2":
            extra = {METADATA: json.dumps(metadata, indent=1)} if metadata else None
            torch.export.save(program, half, extra_files=extra)
        else:
            _exporter()
            names = list(_by_name(_outputs(program)))
            try:
                with _quiet():
                    exported: Any = torch.onnx.export(
                        program, dynamo=True, verbose=False, input_names=["inputs"], output_names=names
                    )
            except torch.onnx.OnnxExporterError as error:
                unknown = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(error))
                why = f"has no operator {unknown[1]}" if unknown else "lacks an operator"
                raise DataError(f"the model cannot be exported as .onnx, which {why}. Write a .pt2 file") from error
            exported.model.metadata_props.update({name: json.dumps(value) for name, value in (metadata or {}).items()})
            exported.save(str(half))


@torch.no_grad()
def max_difference(path: Path, model: TokenModel, batches: Sequence[Tensor]) -> float | None:
    """Return the largest difference between the outputs of a file and of the model; None without onnxruntime.

    Differences are relative to the largest output if it is above 1 (boxes are in pixels).
    """
    run, largest, modes = _runner(path), 0.0, {part: part.training for part in model.modules()}
    if run is None:
        return None
    module = _TensorOutputs(model).eval()
    for inputs in batches:
        expected = _by_name(module(inputs))
        for name, value in run(inputs).items():
            difference = (value - expected[name]).abs().max() / expected[name].abs().max().clamp(min=1)
            largest = max(largest, float(difference.nan_to_num(nan=torch.inf)))
    _restore(modes)
    return largest


def _runner(path: Path) -> Callable[[Tensor], dict[str, Tensor]] | None:
    """Return a function that runs the file; None without onnxruntime."""
    if path.suffix == ".pt2":
        module = torch.export.load(path).module()
        return lambda inputs: _by_name(module(inputs))
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, map(torch.from_numpy, session.run(None, dict(inputs=inputs.numpy())))))


def _outputs(program: ExportedProgram) -> Any:
    """Return the structure of the outputs, with a number in place of each tensor."""
    return tree_unflatten(range(len(program.graph_signature.user_outputs)), cast(Any, program.call_spec.out_spec))


def _by_name(outputs: Any) -> dict[str, Any]:
    return outputs if isinstance(outputs, dict) else dict(logits=outputs)


def can_save(path: Path) -> None:
    """Create the parent folder, and raise if a package that writes the file is missing."""
    atomic.make_parent(path)
    if path.suffix == ".onnx":
        _exporter()


def _exporter() -> None:
    try:
        import onnxscript  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError(
            ".onnx requires the package onnxscript, which is not installed. Run pip install 'ndformer[onnx]'"
        ) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of torch about its own code and about unused torchvision operators."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
