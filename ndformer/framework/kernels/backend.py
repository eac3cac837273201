"""The base class of attention backends."""

from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.tokens import Rows, Where

GPU = "cuda"  # device type with compiled kernels


class Backend:
    """A method to compute softmax(q k' scale + bias) v over visible keys. All backends compute the same numbers."""

    name: str
    packed = False  # accepts packed rows; other backends receive one row per sample, if rows and bias can be cut

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        """Return whether the backend supports this call."""
        return True

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        """Return whether 'auto' should choose this backend for a supported call, considering speed and memory."""
        return True

    def pairs_in_memory(self, q: Tensor, where: Where, bias: Bias | None) -> int:
        """Return how many values of query-key pairs are in memory at a time; 0 if they exist only inside a kernel."""
        return 0

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        """Map (B, H, N, h) to (B, H, N, width of v)."""
        raise NotImplementedError


def on_gpu(q: Tensor) -> bool:
    return q.device.type == GPU


def samples(q: Tensor, where: Where) -> tuple[tuple[Rows, Where], ...] | None:
    """Return packed rows as one row per sample; None if rows are not packed or do not belong to these queries."""
    return None if where.cut is None or where.batch != q.shape[0] else where.cut
