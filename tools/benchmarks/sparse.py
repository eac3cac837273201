#!/usr/bin/env python
"""Compare ndformer's sparse convolution with the exact one of spconv (`Native`) on a CPU; needs its CUDA build.

pip install spconv-cu120          any CUDA build does, also without a GPU
    ndformer benchmarks/sparse  one layer of 64 channels on 90,000 voxels, then all of Point Transformer V3 on 8,700

Both run in turn, and the median of each is printed: for the model with its search of neighbor pairs, for the layer with
and without it. The largest difference of their outputs is printed too.
"""

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.cli.program import new_parser, run
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.errors import DataError
from ndformer.framework.sparse import Sites, SubMConv3d, spconv
from ndformer.framework.tokens import TokenSet, Where
from ndformer.tools.benchmarks.points import VOXEL, surface
from ndformer.tools.benchmarks.turns import in_turn

POINTS = 1.355  # of surface(), for one voxel


class Native(nn.Module):
    """spconv's layer with the weights of an ndformer layer."""

    def __init__(self, layer: SubMConv3d) -> None:
        super().__init__()
        self.package: Any = spconv.build()[0]
        D, k, _, _, C = layer.weight.shape
        algorithm = self.package.ConvAlgo.Native
        self.layer = self.package.SubMConv3d(
            C, D, k, bias=layer.bias is not None, algo=algorithm, indice_key=f"k{k}"
        ).requires_grad_(False)
        self.layer.load_state_dict(layer.state_dict())

    def forward(self, x: Tensor, sites: Sites) -> Tensor:
        if "native" not in sites.cache:
            low = torch.tensor(sites.extent.low)
            voxels = torch.cat([sites.sample[:, None], sites.grid - low], dim=1).int()
            sites.cache["native"] = self.package.SparseConvTensor(x, voxels, sites.shape, sites.extent.samples)
        return self.layer(sites.cache["native"].replace_feature(x)).features


def compare(label: str, ndformer: Callable[[], Tensor], spconv: Callable[[], Tensor], repeats: int) -> None:
    seconds = in_turn(dict(ndformer=ndformer, spconv=spconv), repeats, clock=time.perf_counter)
    times = {name: statistics.median(values) for name, values in seconds.items()}
    error = float((ndformer() - spconv()).abs().max())
    ratio = times["ndformer"] / times["spconv"]
    print(
        f"{label}: {1e3 * times['ndformer']:.0f} ms, spconv {1e3 * times['spconv']:.0f} ms, ratio {ratio:.2f}, "
        f"difference {error:.1e}"
    )


@torch.no_grad()
def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--voxels", type=int, nargs=2, default=(90_000, 8_700), help="of the layer and of the model")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args(arguments)
    if spconv.build()[0] is None:
        raise DataError(f"this compares with a CUDA build of spconv, pip install spconv-cu120, but {spconv.build()[1]}")
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)

    r = surface(round(args.voxels[0] * POINTS))
    grid, sample = (r / VOXEL).floor().long(), torch.zeros(len(r), dtype=torch.int64)
    layer, x = SubMConv3d(64, 64), torch.randn(len(r), 64)
    native, sites = Native(layer), Sites(grid, sample)
    print(f"torch {torch.__version__}, {args.threads} threads")
    label = f"64 to 64 channels, {len(r)} voxels"
    compare(label, lambda: layer(x, sites), lambda: native(x, sites), args.repeats)
    compare(
        f"{label}, with its pairs",
        lambda: layer(x, Sites(grid, sample)),
        lambda: native(x, Sites(grid, sample)),
        args.repeats,
    )

    r = surface(round(args.voxels[1] * POINTS))
    tokens = TokenSet(torch.randn(1, len(r), 6), Where(r[None]))
    model = PTv3().eval()
    other = copy.deepcopy(model)
    for name, part in list(other.named_modules()):
        if isinstance(part, SubMConv3d):
            parent, _, last = name.rpartition(".")
            setattr(other.get_submodule(parent), last, Native(part))
    compare(
        f"Point Transformer V3, {len(r)} voxels",
        lambda: model(tokens).features,
        lambda: other(tokens).features,
        args.repeats,
    )


if __name__ == "__main__":
    run(main)
