"""ndformer.integrations.huggingface: ViTs and DINOv2s of the real transformers, of random weights, and encodings."""

import pytest
import torch

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import IMPORTERS
from ndformer.integrations.huggingface import with_encoding
from tests.integrations.hosts import (
    ENCODINGS,
    assert_any_size,
    assert_kept,
    assert_knows_places,
    assert_masks_are_refused,
    assert_threads_keep_their_positions,
    images,
)

transformers = pytest.importorskip("transformers")
KINDS = ["ViT", "Dinov2", "Dinov2WithRegisters"]


def made(kind="ViT", task="ForImageClassification", seed=0, **options):
    torch.manual_seed(seed)
    sizes = dict(hidden_size=96, num_hidden_layers=2, num_attention_heads=3, image_size=64, patch_size=16, num_labels=7)
    sizes |= dict(intermediate_size=192) if kind == "ViT" else {}
    config = getattr(transformers, f"{kind}Config")(**sizes | options)
    model = getattr(transformers, f"{kind}{task}")(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    return model


def call(model, x):
    return model(x).logits


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_encoding_in_it_works_at_any_size_trains_and_is_kept(kind, encoding):
    model = with_encoding(made(kind), encoding)
    assert not any("position_embeddings" in name for name in model.state_dict())
    assert_any_size(model, call)
    assert_kept(model, with_encoding(made(kind, seed=1), encoding), call)
    assert_knows_places(model, call, encoding == "NoPE")
    for name, weight in model.named_parameters():
        weight.requires_grad_("mask_token" not in name)  # only masked images use it
    used = [p for p in model.parameters() if p.requires_grad]
    model.train()
    call(model, images(32, 48)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in used)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_with_its_table_and_no_encoding_it_is_as_it_was(kind, attention):
    before, x = made(kind, attn_implementation=attention), images(64, 64)
    wanted = call(before, x)
    torch.testing.assert_close(call(with_encoding(before, "NoPE", keep_table=True), x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_without_table_and_encoding_it_is_the_same_as_with_a_table_of_zeros(kind):
    """At the size of training: at another one theirs interpolates zeros."""
    before, x = made(kind), images(64, 64)
    for name, weight in before.named_parameters():
        if "position_embeddings" in name:
            torch.nn.init.zeros_(weight)
    wanted = call(before, x)
    torch.testing.assert_close(call(with_encoding(before, "NoPE"), x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("encoding", ["PaPE(m=5)", "GTA", "PaPE(m=5, periods=[None, 4])"])
def test_it_is_our_model_with_the_same_weights(encoding):
    """Three projections of theirs are one of ours; class token and patches behave alike."""
    theirs = with_encoding(made(), encoding)
    given = theirs.state_dict()
    ours = TokenModel(
        dict(image=dict(type="ImagePatches", patch=16, class_at="auto")),
        dict(
            type="Transformer",
            dim=96,
            depth=2,
            heads=3,
            position_dims=2,
            mlp_ratio=2.0,
            norm_eps=1e-12,
            encoding=parse_encoding(encoding),
        ),
        dict(type="Classifier", classes=7),
    ).eval()
    weights = {"modalities.image.tokens": given["vit.embeddings.cls_token"][0]}
    names = {
        "layernorm_before": "norm1",
        "layernorm_after": "norm2",
        "attention.o_proj": "attention.proj",
        "mlp.fc1": "mlp.0",
        "mlp.fc2": "mlp.2",
    }
    for kind in ("weight", "bias"):
        weights[f"modalities.image.project.{kind}"] = given[f"vit.embeddings.patch_embeddings.projection.{kind}"]
        weights[f"backbone.final_norm.{kind}"] = given[f"vit.layernorm.{kind}"]
        weights[f"head.linear.{kind}"] = given[f"classifier.{kind}"]
        for i in range(2):
            at, here = f"vit.layers.{i}.", f"backbone.blocks.{i}."
            rows = [given[f"{at}attention.{one}_proj.{kind}"] for one in "qkv"]
            weights[f"{here}attention.qkv.{kind}"] = torch.cat(rows)
            weights |= {f"{here}{own}.{kind}": given[f"{at}{name}.{kind}"] for name, own in names.items()}
    for i in range(2):
        for name in ("wp", "wa", "wb") if encoding.startswith("PaPE") else ():
            own = given[f"vit.layers.{i}.attention.encoding.{name}"]
            weights[f"backbone.blocks.{i}.attention.encoding.{name}"] = own
    ours.load_state_dict(weights)
    for size in ((64, 64), (32, 96)):
        torch.testing.assert_close(call(theirs, images(*size)), ours(images(*size)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_all_other_weights_keep_their_names_and_values(kind):
    before = made(kind).state_dict()
    after = with_encoding(made(kind), "PaPE(m=5)").state_dict()
    assert {name.rpartition(".")[2] for name in set(before) - set(after)} == {"position_embeddings"}
    assert all(torch.equal(after[name], before[name]) for name in set(before) & set(after))


def test_masked_images_and_backbones_work_too():
    masked = with_encoding(made(task="ForMaskedImageModeling", encoder_stride=16), "PaPE(m=5)")
    hidden = torch.arange(16)[None].expand(2, -1) < 5
    first = masked(images(64, 64), bool_masked_pos=hidden).reconstruction
    assert first.shape == (2, 3, 64, 64)
    assert not torch.allclose(first, masked(images(64, 64), bool_masked_pos=~hidden).reconstruction)
    backbone = with_encoding(made("Dinov2", "Backbone", out_features=["stage2"]), "ALiBi")
    assert backbone(images(32, 64)).feature_maps[0].shape == (2, 96, 2, 4)


def test_threads_keep_their_positions():
    """Issue 44.4: each took the positions that were entered last."""
    model = with_encoding(made(), "PaPE(m=5)")
    assert_threads_keep_their_positions(model, call, model.vit.layers[0])


def test_it_compiles_as_one_graph():
    model, x = with_encoding(made(), "PaPE(m=5)"), images(64, 64)
    with torch.no_grad():
        run = torch.compile(model, backend="eager")
        torch.testing.assert_close(call(run, x), call(model, x))


def test_what_cannot_be_is_a_sentence():
    model = with_encoding(made(), "ALiBi")
    call(model, images(64, 64))
    assert_masks_are_refused(model.vit.layers[0], torch.randn(2, 17, 96), attention_mask=torch.zeros(2, 1, 17, 17))
    with pytest.raises(TypeError, match="requires a ViT or DINOv2 of transformers, got Linear"):
        with_encoding(torch.nn.Linear(2, 2), "ALiBi")
    with pytest.raises(ValueError, match=r"attention dropout must be 0, got 0\.1"):
        with_encoding(made(attention_probs_dropout_prob=0.1), "ALiBi")


def test_weights_of_a_dinov2_of_theirs_are_not_dinov2s_own():
    """The importers know the names of the sources' own code; those of transformers are told by name."""
    with pytest.raises(Exception, match=r"these are no weights of DINOv2"):
        IMPORTERS.get("dinov2").convert(made("Dinov2").state_dict(), 32)
