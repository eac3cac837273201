"""Two faults on purpose, a mask of the host in a head and a loss that is read, to see that they are caught."""

import torch

from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import HEADS
from tests.elsewhere import device as elsewhere
from tests.elsewhere.steps import counted


@HEADS.register_module()
class Careless(Head):
    def __init__(self, dim, classes=2):
        super().__init__()
        self.linear = torch.nn.Linear(dim, classes)

    def targets(self, data_samples, device):
        return None

    def loss(self, tokens, targets):
        x = self.linear(tokens.features)
        x = x * torch.ones(x.shape[1], 1)  # where? on the host
        loss = x.square().mean()
        return dict(loss=loss, told=torch.full_like(loss, loss.item()))


def main() -> None:
    device = elsewhere.register()
    backbone = dict(type="Transformer", dim=24, depth=1, heads=2, position_dims=2, encoding=dict(type="PaPE", m=4))
    model = TokenModel(dict(image=dict(type="ImagePatches", patch=4)), backbone, dict(type="Careless")).to(device)
    batch = model.to_device(dict(inputs=dict(image=torch.randn(2, 3, 16, 16)), data_samples=[{}, {}]))
    with elsewhere.watched() as seen:
        model.total(model(**batch, mode="loss")).backward()
    elsewhere.told(dict(planted=dict(train=counted(seen))))


if __name__ == "__main__":
    main()
