"""EMA: an exponential moving average of the weights, used for evaluation."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ndformer.framework.system.processes import local


class EMA:
    """An average of weights: average = decay * average + (1 - decay) * weight per step; buffers are copied."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.average = {name: value.detach().clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        parameters = dict(model.named_parameters(remove_duplicate=False))  # tied weights have several names
        averages, weights = [], []
        for name, value in model.state_dict().items():
            average, value = local(self.average[name]), local(value)  # shards are averaged where they are
            if name in parameters and value.is_floating_point():
                averages.append(average)
                weights.append(value)
            else:
                average.copy_(value)
        torch._foreach_lerp_(averages, weights, 1 - self.decay)  # pyright: ignore[reportPrivateImportUsage]

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Use the average as the model's weights within the context."""
        weights: dict[str, Tensor] = {name: value.detach().clone() for name, value in model.state_dict().items()}
        model.load_state_dict(self.average)
        try:
            yield
        finally:
            model.load_state_dict(weights)
