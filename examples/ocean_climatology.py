"""Months and longitudes on circles: guess an anomaly of sea surface temperature from 23 others at the same latitude.

December is next to January, and 359 degrees to 0: straight axes miss these neighbors. Values are generated, or real:
examples/ocean_climatology.py coads_climatology.cdf, of Debian's ferret-datasets (NOAA's Ferret License Agreement).
"""

import sys

import torch
from scipy.io import netcdf_file
from torch import Tensor, nn

from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer

if sys.argv[1:]:  # (12 months, 90 latitudes, 180 longitudes), land has a large negative value
    sst = torch.tensor(netcdf_file(sys.argv[1], mmap=False).variables["SST"][:].astype("float32"))
    sst = sst.masked_fill(sst < -100, torch.nan)
else:  # waves around the Earth and through the year
    axes = (2 * torch.pi * torch.arange(n) / n for n in (12, 90, 180))
    month, north, east = torch.meshgrid(*axes, indexing="ij")
    sst = torch.stack([(k * east + k % 3 * month + k * k * (1 + north)).cos() for k in range(1, 6)]).sum(0)
sst = sst - sst.nanmean((0, 2), keepdim=True)
sst, sea = (sst / sst[sst.isfinite()].std()).movedim(1, 0), sst.isfinite().movedim(1, 0).flatten(1)
sst, sea = (values[sea.float().mean(1) > 0.5] for values in (sst.flatten(1), sea.float()))


def generate_samples(count: int) -> tuple[Tensor, Tensor]:  # values (B, 24); months and longitudes (B, 24, 2)
    belt = torch.randint(len(sea), (count,))
    place = torch.multinomial(sea[belt], 24)
    return sst[belt[:, None], place], torch.stack([place // 180, 2 * (place % 180)], -1).float()


def mean_squared_error(model: nn.ModuleList, count: int) -> Tensor:
    values, places = generate_samples(count)
    known = torch.ones_like(values).index_fill(1, torch.tensor(0), 0)  # the first of the 24 is hidden
    tokens = TokenSet(model[0](torch.stack([values * known, known], -1)), Where(places))
    return (model[2](model[1](tokens).features[:, 0])[:, 0] - values[:, 0]).square().mean()


for name, periods in (("circles", [12, 360]), ("lines", None)):
    torch.manual_seed(0)
    encoding = dict(type="PaPE", m=8, position_scale=[1 / 2, 1 / 30], periods=periods)
    model = nn.ModuleList([nn.Linear(2, 32), Transformer(32, 2, 4, 2, encoding), nn.Linear(32, 1)])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(250):
        optimizer.zero_grad()
        mean_squared_error(model, 64).backward()
        optimizer.step()
    print(f"{name}: {mean_squared_error(model, 1000).sqrt().item():.2f} standard deviations off")
