"""Batch norms whose running statistics are also right after short trainings."""

from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

FIRST, RECENT = 10, 0.1  # batches with equal weights; the share of the batches so far that statistics then cover


class GradualNorm(_BatchNorm):
    """A batch norm whose momentum falls to `final_momentum` as the training goes on.

    The first 10 batches have equal weights, then the weights of the last tenth of the batches dominate. With the
    published momentum of 0.01 from the start, statistics lag behind weights that change within a few hundred steps.
    """

    def __init__(self, channels: int, eps: float, final_momentum: float) -> None:
        super().__init__(channels, eps, final_momentum)
        self.final_momentum = final_momentum
        self.batches: int | None = None  # number of training batches; None: not read from the device yet
        self.register_load_state_dict_post_hook(type(self).after_loading)

    def forward(self, input: Tensor) -> Tensor:
        if self.training:
            self.momentum = self.next_momentum()
        return super().forward(input)

    def next_momentum(self) -> float:
        """Count one more training batch, and return its momentum."""
        if self.batches is None:  # read once, because reading synchronizes with the device
            assert self.num_batches_tracked is not None
            self.batches = int(self.num_batches_tracked)
        self.batches += 1
        return max(1 / self.batches, min(1 / FIRST, max(self.final_momentum, 1 / (RECENT * self.batches))))

    def after_loading(self, keys: object) -> None:
        """Forget the number of batches, as the loaded statistics have another."""
        self.batches = None
