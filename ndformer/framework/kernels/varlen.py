"""torch's varlen_attn: flash attention of packed rows without a bias, on a GPU in 16 bits.

It serves encodings that leave the logits alone or change q and k only (NoPE, rotary). A parabola as channels of q and k
would be wrong by up to 1 in 16 bits, so PaPE goes to `fused`, which computes it in float32. The lengths of the samples
come from `where.grids`, which the host knows, so nothing waits for the GPU.
"""

import importlib.util
import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.kernels.backend import Backend, on_gpu
from ndformer.framework.tokens import Where

DTYPES = (torch.bfloat16, torch.float16)
MAX_WIDTH, STEP = 256, 8  # of a head, for flash attention
CAPABILITY = (8, 0)  # of the GPU
AVAILABLE = importlib.util.find_spec("torch.nn.attention.varlen") is not None


class Samples(NamedTuple):
    """The samples of packed rows, one after the other."""

    bounds: Tensor  # (samples + 1,) int32, the first token of each, and the number of tokens
    longest: int


_cached_samples: WeakKeyDictionary[Where, Samples] = WeakKeyDictionary()


class Varlen(Backend):
    """Serve packed rows whose lengths the host knows; not in compiled graphs, for which the lengths are constants."""

    name, packed = "varlen", True

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        if bias is not None or where.segment is None or where.grids is None or torch.compiler.is_compiling():
            return False
        if torch.are_deterministic_algorithms_enabled() or not (on_gpu(q) and AVAILABLE and q.dtype in DTYPES):
            return False  # the order of its sums of gradients varies
        fits = q.shape[-1] == v.shape[-1] <= MAX_WIDTH and q.shape[-1] % STEP == 0
        return fits and torch.cuda.get_device_capability(q.device) >= CAPABILITY

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        if not self.serves(q, k, v, where, bias):
            raise ValueError(
                "backend 'varlen' is for packed images or clips without a bias, in bfloat16 or float16 on a GPU, with "
                f"heads of up to {MAX_WIDTH} channels, a multiple of {STEP}: take 'auto'"
            )
        from torch.nn.attention.varlen import varlen_attn

        if where not in _cached_samples:
            _cached_samples[where] = packed_samples(where)
        bounds, longest = _cached_samples[where]
        fq, fk, fv = (t.transpose(1, 2).flatten(0, 1) for t in (q, k, v))  # (B N, H, h)
        out = varlen_attn(fq, fk, fv, bounds, bounds, longest, longest, scale=scale)
        assert isinstance(out, Tensor)
        return out.unflatten(0, (q.shape[0], q.shape[2])).transpose(1, 2)


def packed_samples(where: Where) -> Samples:
    """Return where each sample begins in all rows, from the sizes of the grids."""
    assert where.grids is not None
    cells = [math.prod(grid) for grid in where.grids]
    front = (where.batch * where.positions.shape[1] - sum(cells)) // len(cells)  # class token and registers of each
    lengths = torch.tensor([cell + front for cell in cells], dtype=torch.int32)
    bounds = F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return Samples(bounds.to(where.positions.device, non_blocking=True), int(lengths.max()))
