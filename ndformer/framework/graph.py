"""A model as a graph that runs without ndformer, for batches of any length (torch.export, ONNX)."""

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from ndformer.framework import atomic
from ndformer.framework.errors import DataError

ENDINGS = (".pt2", ".onnx")


def graph(model: nn.Module, example: Tensor) -> ExportedProgram:
    """What model(x) computes in evaluation, for any number of samples like the two or more of `example`."""
    was_training = model.training
    try:
        with torch.no_grad():
            return torch.export.export(model.eval(), (example,), dynamic_shapes=({0: Dim("batch")},))
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"the model does not become a graph ({why}): classifiers and segmenters of images do, with any encoding of "
            "ours whose one_graph is True; of others export the weights, as .safetensors"
        ) from error
    finally:
        model.train(was_training)


def save(path: Path, found: ExportedProgram) -> None:
    """As .pt2, which torch.export.load reads, or as .onnx."""
    with atomic.whole(path) as half:
        if path.suffix == ".pt2":
            torch.export.save(found, half)
        else:
            _exporter()
            try:
                with _quiet():
                    made: Any = torch.onnx.export(found, dynamo=True, verbose=False, input_names=["inputs"])
            except torch.onnx.OnnxExporterError as error:
                unknown = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(error))
                why = f"has no {unknown[1]}" if unknown else "does not know all that it computes"
                raise DataError(f"the model does not become .onnx, which {why}: write a .pt2") from error
            made.save(str(half))


def can_save(path: Path) -> None:
    """A sentence unless there is all that it takes."""
    if not path.parent.is_dir():
        raise DataError(f"the folder of {path} is missing: make it, or name another one")
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
