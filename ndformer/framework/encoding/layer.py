"""The part of a position encoding in one attention layer: the hooks that attention calls."""

from typing import Any, ClassVar

from torch import Tensor, nn

from ndformer.framework.bias.base import Bias, CircularBias
from ndformer.framework.encoding.circles import Periods
from ndformer.framework.system.autocast import without_autocast


class LayerEncoding(nn.Module):
    """The part of an encoding in one attention layer, with the weights of this layer."""

    no_weight_decay: ClassVar[tuple[str, ...]] = ()  # names of parameters without weight decay
    batch_statistics: bool = False  # qk_input takes statistics of all tokens of a batch
    circle_lengths: Periods | None = None  # see PositionEncoding.on_axes

    def forward(
        self, q: Tensor, k: Tensor, x: Tensor, state: Any, numbers: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Bias | None]:
        """Return q, k (B, H, N, h) with positions applied and the bias of their logits, in float32 under autocast.

        `numbers` are the results of token_numbers() for these tokens, if they are known already.
        """
        with without_autocast(q):
            bias = self.bias_on_axes(q, k, x, state) if numbers is None else self.bias_from_numbers(numbers, state)
            if bias is not None:
                bias.set_queries(q)
            q, k = self.qk(q, k, x, state)
        return q, k, bias

    def input(self, x: Tensor, state: Any) -> Tensor:
        """Return the input of the q, k and v projections."""
        return x

    def qk_input(self, x: Tensor, state: Any) -> Tensor:
        """Return the input of the q and k projections, given the input x of the v projection."""
        return x

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """Return q and k with positions applied, in their original dtype."""
        return q, k

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> Bias | None:
        """Return the bias to add to the scaled logits, from q and k before qk() and x after input()."""
        return None

    def token_numbers(self, x: Tensor, like: Tensor) -> Tensor | None:
        """Return the numbers (B, N, F) of each token x (B, N, dim) that its bias needs; None: bias() needs more.

        Attention computes them once for all samples of a packed row. `like` has the dtype of q.
        """
        return None

    def bias_from_numbers(self, numbers: Tensor, state: Any) -> Bias:
        """Return the bias from token_numbers()."""
        raise NotImplementedError

    def bias_on_axes(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> Bias | None:
        """Return the bias, on circles where the encoding has circular axes."""
        bias = self.bias(q, k, x, state)
        return bias if bias is None or self.circle_lengths is None else CircularBias(bias, self.circle_lengths)

    def values(self, v: Tensor, x: Tensor, state: Any) -> Tensor:
        """Return the values v (B, H, N, h) with positions applied, in their original dtype; x as after input()."""
        return v

    def output(self, y: Tensor, x: Tensor, state: Any) -> Tensor:
        """Return attention's output y (B, H, N, h) of each query with the query's position applied."""
        return y

    @property
    def changes_qk_input(self) -> bool:
        """Whether the input of q and k is another one than that of v."""
        return type(self).qk_input is not LayerEncoding.qk_input

    @property
    def transforms_values(self) -> bool:
        """Whether `values` or `output` is implemented; if not, attention calls neither."""
        kind = type(self)
        return kind.values is not LayerEncoding.values or kind.output is not LayerEncoding.output
