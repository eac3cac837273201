"""What a backend of attention is: one way to compute it, and what it serves."""

from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.tokens import Rows, Where

GPU = "cuda"  # the type of device that has compiled kernels


class Backend:
    """softmax(q k' scale + bias) v over the keys that each query may see. All backends give the same numbers."""

    name: str
    packed = False  # takes packed rows whole; others get one row per sample, where rows and bias can be cut

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        """Whether it can compute this."""
        return True

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        """Whether 'auto' takes it where it serves: there it is the fastest, and its memory is in bounds."""
        return True

    def held(self, q: Tensor, where: Where, bias: Bias | None) -> int:
        """How many logits or other values of pairs it has in memory at a time; 0 where only a kernel sees them."""
        return 0

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        """(B, H, N, h) -> (B, H, N, width of v)."""
        raise NotImplementedError


def on_gpu(q: Tensor) -> bool:
    return q.device.type == GPU


def samples(q: Tensor, where: Where) -> tuple[tuple[Rows, Where], ...] | None:
    """Packed rows as one row per sample; None where these queries are not in them, or nothing is packed."""
    return None if where.cut is None or where.batch != q.shape[0] else where.cut
