"""A task of your own: a head and its metric. Here they find the row and the column of the bright spot in an image."""

import torch

from ndformer.framework.compat import BaseMetric
from ndformer.framework.engine.training.evaluate import measure
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import HEADS, METRICS


@HEADS.register_module()
class Regressor(torch.nn.Linear):
    def __init__(self, dim: int, numbers: int) -> None:
        super().__init__(dim, numbers)

    def targets(self, data_samples, device):
        return torch.stack([sample["value"] for sample in data_samples]).to(device)  # (B, numbers)

    def loss(self, tokens, targets):
        return dict(loss=(self(tokens.features[:, 0]) - targets).square().mean())  # of the class token

    def predict(self, tokens, data_samples):
        return [s | dict(prediction=one) for s, one in zip(data_samples, self(tokens.features[:, 0]))]


@METRICS.register_module()
class MeanError(BaseMetric):
    main = "mean_error"  # what the best checkpoint is best at
    default_prefix = ""

    def process(self, data_batch, data_samples):
        self.results += [(one["prediction"] - one["value"]).norm().item() for one in data_samples]

    def compute_metrics(self, results):
        return dict(mean_error=sum(results) / len(results))


def made_up(count):
    images, spots = torch.zeros(count, 1, 16, 16), torch.randint(0, 16, (count, 2))
    images[torch.arange(count), 0, spots[:, 0], spots[:, 1]] = 4.0
    return dict(inputs=dict(image=images), data_samples=[dict(value=spot.float()) for spot in spots])


torch.manual_seed(0)
image = dict(type="ImagePatches", patch=4, channels=1)
blocks = dict(type="Transformer", dim=32, depth=2, heads=4, position_dims=2, encoding=dict(type="Sincos"))
model = TokenModel(dict(image=image), blocks, dict(type="Regressor", numbers=2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(200):
    optimizer.zero_grad()
    model(**made_up(64), mode="loss")["loss"].backward()
    optimizer.step()
error = measure([dict(type="MeanError")], model, [made_up(500)]).values["mean_error"]
print(f"{error:.2f} pixels beside the spot, of 16 x 16")
