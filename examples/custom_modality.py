"""A modality of your own: an adapter makes tokens and says where they are. Here radar, trained in a plain loop.

A return has a strength and a place in (range, azimuth, velocity): do they come from one car, or two? With a config
in place of the loop, validation, checkpoints and a report: docs/how-to/new-modality.md.
"""

import torch
from torch import Tensor, nn

from ndformer.framework.adapter import Adapter
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import MODALITIES
from ndformer.framework.tokens import TokenSet, Where


@MODALITIES.register_module()
class Radar(Adapter):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(1, dim)

    def forward(self, returns: Tensor) -> TokenSet:  # (B, N, 4): strength, range, azimuth, velocity
        strength, positions = returns.split([1, 3], -1)
        return TokenSet(self.project(strength), Where(positions, valid=strength[..., 0] > 0))  # others are padding


def generate_sample(count: int) -> tuple[Tensor, list[dict]]:
    label = torch.arange(count) % 2
    car = label[:, None] * (torch.arange(12) % 2)  # (B, 12): whose return it is
    places = (4 * torch.rand(count, 2, 3)).gather(1, car[..., None].expand(-1, -1, 3)) + 0.2 * torch.randn(count, 12, 3)
    strength = torch.rand(count, 12, 1) * (torch.arange(12) < torch.randint(6, 13, (count, 1)))[..., None]
    return torch.cat([strength, places], -1), [dict(label=int(one)) for one in label]


torch.manual_seed(0)
blocks = dict(dim=32, depth=2, heads=4, position_dims=3, encoding=dict(type="PaPE", m=8))
head = dict(type="Classifier", classes=2, pool="mean")
model = TokenModel(dict(radar=dict(type="Radar")), dict(type="Transformer", **blocks), head)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(100):
    returns, samples = generate_sample(128)
    optimizer.zero_grad()
    model(dict(radar=returns), samples, mode="loss")["loss"].backward()
    optimizer.step()
returns, samples = generate_sample(500)
answers = model.eval()(dict(radar=returns), samples, mode="predict")
print(f"{sum(one.prediction == one.label for one in answers) / 500:.2f} right, 0.50 by chance")
