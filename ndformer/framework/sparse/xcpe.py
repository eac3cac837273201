"""xCPE, the conditional position encoding of Point Transformer V3: a sparse convolution."""

from torch import Tensor, nn

from ndformer.framework.sparse.conv import SubMConv3d
from ndformer.framework.sparse.sites import Sites


class XCPE(nn.Module):
    """xCPE: sparse convolution, linear layer and norm, added to each point."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = SubMConv3d(dim, dim, kernel=3)
        self.linear = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, sites: Sites) -> Tensor:
        return self.norm(self.linear(self.conv(x, sites)))
