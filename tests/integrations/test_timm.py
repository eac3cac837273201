"""Models of the real timm, with random weights, answer here as they do there (`make integrations` installs it)."""

import pytest
import torch

from ndformer.framework.model import TokenModel
from ndformer.framework.registry import IMPORTERS

timm = pytest.importorskip("timm")


@pytest.mark.parametrize(
    "name",
    ["vit_tiny_patch16_224", "deit_tiny_patch16_224", "deit3_small_patch16_224", "vit_small_patch14_reg4_dinov2"],
)
def test_a_model_of_timm_answers_the_same(name):
    torch.manual_seed(0)
    size = 4 * int(name.split("patch")[1][:2])
    theirs = timm.create_model(name, pretrained=False, num_classes=7, img_size=size).eval()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    parts = IMPORTERS.get("timm").convert(theirs.state_dict(), 64).parts
    adapter, backbone, head = (parts[place] for place in ("modalities.image", "backbone", "head"))
    model = TokenModel(dict(image=adapter.config), backbone.config, head.config).eval()
    model.load_state_dict({f"{place}.{own}": w for place, part in parts.items() for own, w in part.weights.items()})
    images = torch.randn(2, 3, size, size)
    torch.testing.assert_close(model(images), theirs(images), rtol=1e-5, atol=1e-5)
