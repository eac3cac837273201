"""ndformer.integrations.timm: a VisionTransformer of the real timm, with random weights, and another encoding in it."""

import pytest
import torch

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import IMPORTERS
from ndformer.integrations.timm import with_encoding
from tests.integrations.hosts import (
    ENCODINGS,
    assert_any_size,
    assert_kept,
    assert_knows_places,
    assert_masks_are_refused,
    assert_threads_keep_their_positions,
    assert_trains,
    images,
)

timm = pytest.importorskip("timm")
NAMES = ["vit_tiny_patch16_224", "vit_small_patch14_reg4_dinov2"]


def vit(name="vit_tiny_patch16_224", seed=0, **options):
    torch.manual_seed(seed)
    sizes = dict(img_size=64, patch_size=16, depth=2, embed_dim=96, num_heads=3, num_classes=7)
    made = timm.create_model(name, pretrained=False, **sizes | options)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    return made.eval()


def call(model, x):
    return model(x)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", NAMES)
def test_an_encoding_in_it_works_at_any_size_trains_and_is_kept(name, encoding):
    model = with_encoding(vit(name), encoding)
    assert model.pos_embed is None
    assert_any_size(model, call)
    assert_trains(model, call)
    assert_kept(model, with_encoding(vit(name, seed=1), encoding), call)
    assert_knows_places(model, call, encoding == "NoPE")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norms", [dict(), dict(qk_norm=True), dict(pre_norm=True)])
def test_with_its_table_and_no_encoding_it_is_as_it_was(name, norms):
    before, x = vit(name, **norms), images(64, 64)
    wanted = before(x)
    after = with_encoding(before, "NoPE", keep_table=True)
    torch.testing.assert_close(after(x), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after.forward_intermediates(x, intermediates_only=True)[-1].shape, (2, 96, 4, 4))
    larger = vit(name, dynamic_img_size=True, **norms)
    torch.testing.assert_close(after(images(96, 64)), larger(images(96, 64)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "encoding", ["PaPE(m=5)", "ALiBi", "AxialRoPE", "Sincos", "LookHere", "GTA", "PRoPE", "ALiBi(periods=[None, 4])"]
)
def test_it_is_our_model_with_the_same_weights(encoding):
    """The independent way: its weights taken over by our importer, into a Transformer with this encoding."""
    theirs = with_encoding(vit(), encoding)
    plain = vit()
    torch.nn.init.zeros_(plain.pos_embed)
    parts = IMPORTERS.get("timm").convert(plain.state_dict(), 32).parts
    blocks = parts["backbone"].config | dict(encoding=parse_encoding(encoding))
    ours = TokenModel(
        dict(image=parts["modalities.image"].config | dict(class_at="auto")), blocks, parts["head"].config
    ).eval()
    given = {f"{place}.{own}": w for place, part in parts.items() for own, w in part.weights.items()}
    given = {name: w for name, w in given.items() if name in ours.state_dict()}
    for i, block in enumerate(theirs.blocks):
        for name, value in block.attn.encoding.state_dict().items():
            given[f"backbone.blocks.{i}.attention.encoding.{name}"] = value
    ours.load_state_dict(given, strict=False)
    assert set(ours.state_dict()) - set(given) == set()
    for size in ((64, 64), (32, 96)):
        torch.testing.assert_close(theirs(images(*size)), ours(images(*size)), rtol=1e-4, atol=1e-5)


def test_all_other_weights_keep_their_names_and_values():
    before = vit(qk_norm=True).state_dict()
    after = with_encoding(vit(qk_norm=True), "PaPE(m=5)").state_dict()
    assert set(before) - set(after) == {"pos_embed"}
    assert all(torch.equal(after[name], before[name]) for name in set(before) & set(after))
    assert {name.split(".encoding.")[-1] for name in set(after) - set(before)} == {"wp", "wa", "wb"}


def test_under_gradient_checkpointing_gradients_are_the_same():
    found = []
    for checkpointing in (False, True):
        torch.manual_seed(3)
        model = with_encoding(vit(), "PaPE(m=5)")
        model.set_grad_checkpointing(checkpointing)
        model(images(48, 64)).square().sum().backward()
        found.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(found[0], found[1])


def test_threads_keep_their_positions():
    """Issue 44.4: each took the positions that were entered last."""
    model = with_encoding(vit(), "PaPE(m=5)")
    assert_threads_keep_their_positions(model, call, model.blocks[0])


def test_it_compiles_as_one_graph():
    model, x = with_encoding(vit(), "PaPE(m=5)"), images(64, 64)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(x), model(x))


def test_what_cannot_be_is_a_sentence():
    model = with_encoding(vit(), "ALiBi")
    model(images(64, 64))
    assert_masks_are_refused(model.blocks[0], torch.randn(2, 17, 96), attn_mask=torch.zeros(17, 17))
    with pytest.raises(TypeError, match="requires a VisionTransformer of timm, got Linear"):
        with_encoding(torch.nn.Linear(2, 2), "ALiBi")
    with pytest.raises(TypeError, match="got VisionTransformerDistilled"):
        with_encoding(timm.create_model("deit_tiny_distilled_patch16_224"), "ALiBi")
    with pytest.raises(ValueError, match="patch dropout must be 0"):
        with_encoding(vit(patch_drop_rate=0.5), "ALiBi")
    with pytest.raises(ValueError, match=r"attention dropout must be 0, got 0\.1"):
        with_encoding(vit(attn_drop_rate=0.1), "ALiBi")
    with pytest.raises(ValueError, match="expected 17 tokens, got 16"):
        model.blocks(torch.randn(2, 16, 96))
