"""A task of your own, with a plain loop: where is the bright spot? docs/how-to/new-task.md adds metric, data,
pictures."""

from dataclasses import dataclass

import torch

from ndformer.framework.answer import Answer
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import HEADS


@dataclass(kw_only=True, eq=False)
class Spot(Answer):
    place: torch.Tensor  # row, column


@HEADS.register_module()
class Finder(Head):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(dim, 2)

    def targets(self, data_samples, device):
        return torch.stack([sample["place"] for sample in data_samples]).to(device)  # (B, 2)

    def loss(self, tokens, targets):
        return dict(loss=(self.linear(tokens.features[:, 0]) - targets).square().mean())  # of the class token

    def predict(self, tokens, data_samples) -> list[Answer]:
        places = self.linear(tokens.features[:, 0])
        return [Spot(sample=sample, place=place) for sample, place in zip(data_samples, places)]


def generate_sample(count):
    images, spots = torch.zeros(count, 1, 16, 16), torch.randint(0, 16, (count, 2))
    images[torch.arange(count), 0, spots[:, 0], spots[:, 1]] = 4.0
    return dict(inputs=dict(image=images), data_samples=[dict(place=spot.float()) for spot in spots])


torch.manual_seed(0)
image = dict(type="ImagePatches", patch=4, channels=1)
blocks = dict(type="Transformer", dim=32, depth=2, heads=4, position_dims=2, encoding=dict(type="Sincos"))
model = TokenModel(dict(image=image), blocks, dict(type="Finder"))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(200):
    optimizer.zero_grad()
    model(**generate_sample(64), mode="loss")["loss"].backward()
    optimizer.step()
answers = model.eval()(**generate_sample(500), mode="predict")
error = torch.stack([(spot.place - spot.sample["place"]).norm() for spot in answers]).mean()
print(f"{error:.2f} pixels beside the spot, of 16 x 16")
