"""Base class of heads, which make losses and answers from tokens; one class per task."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ndformer.framework.answer import Answer
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import BadNumbers
from ndformer.framework.registry import HEADS
from ndformer.framework.tokens import TokenSet

Scores = TypeVar("Scores", Tensor, Sequence[Tensor])


def finite(scores: Scores, samples: Sequence[dict[str, Any]]) -> Scores:
    """Return the scores of each sample, or raise BadNumbers: argmax and topk would hide NaN.

    Synchronizes with the device once, for all samples.
    """
    good = torch.stack([values.isfinite().all() for values in scores]).tolist()
    if not all(good):
        sample = samples[good.index(False)]
        name = sample.get("path") or f"sample {sample.get('index', '')}".strip()
        raise BadNumbers(f"the model's output for {name} is not finite. Check the weights and the input.")
    return scores


class Head(nn.Module):
    """Base class of all heads: implement `targets`, `loss` and `predict`, and register the class in HEADS.

    The first argument of its constructor is `dim`, the width of tokens.
    """

    output_axes: ClassVar[dict[str, tuple[str, ...]]] = {}  # axis names of each output of exported()
    makes_maps: ClassVar[bool] = False  # of the tokens: none may be dropped, and patches have one size
    patch: float | None = None  # side of a token in pixels, of heads whose answers are in pixels
    reads_cells: bool = False  # makes maps of tokens without a grid, in which a placed class token would cover others
    reads_class_token: bool = False  # if true, a model whose adapters make none is refused
    classes: int = 0  # number of classes; checked against the dataset unless 0

    def forward(self, tokens: TokenSet) -> Any:
        """Return the raw output for a batch, with gradients: the value of model(x)."""
        raise TypeError(f"{type(self).__name__} has no forward(tokens), so it has no raw output. Use mode='predict'.")

    def check_exportable(self) -> None:
        """Raise DataError if exported() cannot return the values of predict(): a graph knows the inputs alone."""

    def exported(self, output: Any) -> Tensor | dict[str, Tensor]:
        """Convert the output of forward() to what an exported graph returns: a tensor, or several by name."""
        return output

    def fit(self, data: Dataset) -> None:
        """Set what depends on the whole training set, such as the mean of the targets, before the first step."""

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Any:
        """Return the targets of a batch on the device, as loss() takes them and mixers change them."""
        return tree_map_only(Tensor, lambda value: value.to(device, non_blocking=True), data_samples)

    def loss(self, tokens: TokenSet, targets: Any) -> dict[str, Tensor]:
        """Return dict(loss=...): the sum of the entries whose names contain "loss" is minimized.

        The losses of several processes are averaged. If their batches may differ in the number of points or boxes,
        divide a sum over them by processes.shared_divisor(count).
        """
        raise NotImplementedError

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        """Return an Answer for each sample."""
        raise NotImplementedError


def build_head(cfg: dict[str, Any], dim: int) -> Head:
    """Build a head for tokens of width `dim` from its config; raise if its class does not extend Head."""
    kind = HEADS.get(cfg["type"]) if isinstance(cfg, dict) and isinstance(cfg.get("type"), str) else None
    if kind is not None and not issubclass(kind, Head):
        raise TypeError(f"a head must be a Head, got {kind.__name__}. Extend ndformer.framework.heads.head.Head")
    return HEADS.create(cfg, dim=dim)
