"""Head: what makes losses and answers from tokens. One class for each task."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ndformer.framework.answer import Answer
from ndformer.framework.errors import BadNumbers
from ndformer.framework.tokens import TokenSet

Scores = TypeVar("Scores", Tensor, Sequence[Tensor])


def finite(scores: Scores, samples: Sequence[dict[str, Any]]) -> Scores:
    """The scores of each sample, after one look at all: what is chosen by the largest hides that one is no number."""
    good = torch.stack([one.isfinite().all() for one in scores]).tolist()
    if not all(good):
        sample = samples[good.index(False)]
        name = sample.get("path") or f"sample {sample.get('index', '')}".strip()
        raise BadNumbers(f"what the model says of {name} is not finite, so its weights or its input are not")
    return scores


class Head(nn.Module):
    """Extend it with `targets`, `loss` and `predict`, and register it in HEADS. Its constructor begins with `dim`, the
    width of tokens."""

    output_axes: ClassVar[dict[str, tuple[str, ...]]] = {}  # names of the axes of what exported() returns, by output
    classes: int = 0  # how many it tells apart: as many as the data has, where it says so

    def forward(self, tokens: TokenSet) -> Any:
        """What it says of a batch, as tensors with gradients: what model(x) gives in plain code."""
        raise TypeError(
            f"{type(self).__name__} has no forward(tokens), what it says as tensors: ask for mode='predict'"
        )

    def exported(self, said: Any) -> Tensor | dict[str, Tensor]:
        """What forward() gave, as a graph for elsewhere gives it: a tensor, or several by their names."""
        return said

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Any:
        """What a batch should be answered, as `loss` takes it, and as mixers of training batches change it."""
        return tree_map_only(Tensor, lambda value: value.to(device, non_blocking=True), data_samples)

    def loss(self, tokens: TokenSet, targets: Any) -> dict[str, Tensor]:
        """dict(loss=...), which is trained on, and whatever else is to be looked at."""
        raise NotImplementedError

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        """An answer for each sample."""
        raise NotImplementedError
