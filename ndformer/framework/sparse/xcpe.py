"""xCPE, the conditional position encoding of Point Transformer V3: a convolution among occupied voxels."""

from torch import Tensor, nn

from ndformer.framework.sparse.conv import SubMConv3d
from ndformer.framework.sparse.sites import Sites


class XCPE(nn.Module):
    """What is added to each point: the norm of a linear map of the convolution, which sees zeros where no point is."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = SubMConv3d(dim, dim, kernel=3)
        self.linear = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, sites: Sites) -> Tensor:
        return self.norm(self.linear(self.conv(x, sites)))
