"""timm's NaFlexViT, padded, and the same weights here, packed: equal logits of rectangles of three sizes."""

import pytest
import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import IMPORTERS

naflexvit = pytest.importorskip("timm.models.naflexvit")
PATCH, WIDTH = 8, 16  # of a patch, of a head
SIZES = [(40, 24), (16, 72), (32, 32)]


def padded(images: list[Tensor]) -> dict[str, Tensor]:
    """Return the patches of images (3, H, W) as timm reads them, padded to the largest image."""
    rows = []
    for image in images:
        patches, (height, width) = naflexvit.batch_patchify(image[None], (PATCH, PATCH))
        places = torch.cartesian_prod(torch.arange(height), torch.arange(width))
        rows.append((patches[0], places, torch.ones(len(places), dtype=torch.bool)))
    x, places, valid = (torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True) for parts in zip(*rows))
    return dict(patches=x, patch_coord=places, patch_valid=valid)


@pytest.mark.parametrize(
    "options, base",
    [
        (dict(global_pool="avg", fc_norm=True, reg_tokens=4), 0),
        (dict(global_pool="token", class_token=True, reg_tokens=1, init_values=None, pre_norm=True), 0),
        (dict(global_pool="avg", fc_norm=True, pos_embed="none", rope_type="axial"), 10_000),
        (dict(global_pool="token", class_token=True, rope_type="axial", rope_temperature=100.0), 100),
        (dict(global_pool="avg", fc_norm=False, pos_embed="none", rope_type="mixed", rope_temperature=10.0), 0),
        (dict(global_pool="token", class_token=True, rope_type="mixed", rope_temperature=10.0), 0),
    ],
    ids=["table", "table and class token", "axial", "table and axial", "mixed", "table and mixed"],
)
def test_rectangles_packed_here_answer_as_padded_in_timm(options, base):
    torch.manual_seed(0)
    sizes = dict(patch_size=PATCH, embed_dim=4 * WIDTH, depth=3, num_heads=4, pos_embed_grid_size=(4, 6))
    cfg = naflexvit.NaFlexVitCfg(**sizes | dict(init_values=1e-5) | options)
    theirs = naflexvit.NaFlexVit(cfg, num_classes=7).eval()
    for name, weight in theirs.named_parameters():
        if "freqs" not in name:
            torch.nn.init.normal_(weight, std=0.1)
    parts = IMPORTERS.get("naflexvit").convert(theirs.state_dict(), WIDTH, base).parts
    adapter, backbone, head = (parts[place] for place in ("modalities.image", "backbone", "head"))
    model = TokenModel(dict(image=adapter.config), backbone.config, head.config).eval()
    model.load_state_dict({f"{place}.{name}": w for place, part in parts.items() for name, w in part.weights.items()})
    images = [torch.randn(3, *size) for size in SIZES]
    with torch.no_grad():
        torch.testing.assert_close(model(images), theirs(padded(images)), rtol=1e-5, atol=1e-5)


def test_weights_of_a_model_as_timm_names_it():
    """The parts that are not ours are refused by their names: pooling by attention, tables of rows and of columns."""
    sizes = dict(embed_dim=64, depth=1, num_heads=4)
    gap = naflexvit.naflexvit_base_patch16_gap(**sizes).state_dict()
    assert IMPORTERS.get("naflexvit").convert(gap, WIDTH).left == []
    for name, says in (("map", "attn_pool"), ("parfac_gap", "pos_embed_y|neither a table nor frequencies")):
        weights = getattr(naflexvit, f"naflexvit_base_patch16_{name}")(**sizes).state_dict()
        with pytest.raises(DataError, match=says):
            IMPORTERS.get("naflexvit").convert(weights, WIDTH)
