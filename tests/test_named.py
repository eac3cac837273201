"""ndformer.create()."""

import pytest
import torch

import ndformer
from ndformer.framework.errors import UnknownNameError


@pytest.mark.parametrize("name, published", [("vit_tiny", 5_717_416), ("vit_small", 22_050_664)])
def test_sizes_are_those_of_deit_but_for_the_table_of_positions(name, published):
    """They have 197 rows of a learned table, and 1,000 classes."""
    model = ndformer.create(name, encoding="NoPE")
    assert sum(p.numel() for p in model.parameters()) == published - 197 * model.backbone.dim


def test_ptv3_is_the_published_network():
    """46.2 million parameters with its decoder and twenty classes (Wu 2024)."""
    head = dict(type="TokenSegmenter", classes=20)
    model = ndformer.create("ptv3_base", encoding=[], head=head, dec_depths=(2, 2, 2, 2))
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(46.17, abs=0.05)


@pytest.mark.slow
def test_it_learns_in_anybodys_loop_and_compiles():
    torch.manual_seed(0)
    model = ndformer.create("vit_tiny", encoding="PaPE(m=8)", classes=3, depth=2)
    images, labels = torch.randn(6, 3, 32, 32), torch.arange(6) % 3
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    model.eval()
    exported = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(exported(images), model(images))


def test_modalities_and_options_are_as_in_a_config():
    video = dict(video=dict(type="Tubelets", tubelet=(2, 8, 8)))
    model = ndformer.create("vit_tiny", encoding="PaPE(m=2)", classes=5, modalities=video, depth=1)
    assert model(torch.zeros(2, 4, 3, 16, 16, dtype=torch.uint8)).shape == (2, 5)
    assert model.position_dims == 3


def test_the_same_seed_has_the_same_weights_whatever_the_modality():
    made = [torch.manual_seed(0) and ndformer.create("vit_tiny", "NoPE", depth=1) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(made[0].state_dict().values(), made[1].state_dict().values()))


def test_other_names_are_told():
    with pytest.raises(UnknownNameError, match="no model is called 'vit_smal', did you mean 'vit_small'"):
        ndformer.create("vit_smal")


def test_without_classes_it_gives_features():
    """Issue 44.13: create(classes=0) is a network whose output is (B, dim), as in timm."""
    model = ndformer.create("vit_tiny", "NoPE", classes=0, depth=1)
    images = torch.randn(2, 3, 32, 32)
    tokens = model.features(images).features
    torch.testing.assert_close(model(images), tokens[:, 0])
    mean = ndformer.create("vit_tiny", "NoPE", 0, dict(image=dict(type="ImagePatches", class_token=False)), depth=1)
    torch.testing.assert_close(mean(images), mean.features(images).features.mean(1))
    with pytest.raises(TypeError, match="PooledFeatures has no classes to predict. Call model"):
        model.val_step(dict(inputs=dict(image=images), data_samples=[{}, {}]))


@pytest.mark.parametrize("name, meant", [("clases", "classes"), ("num_classes", "classes"), ("dept", "depth")])
def test_misspelled_arguments_get_a_suggestion(name, meant):
    """Issue 44.13: they went to the backbone, which knows no `classes`."""
    with pytest.raises(UnknownNameError, match=rf"create\(\) has no argument '{name}', did you mean '{meant}'\?"):
        ndformer.create("vit_tiny", **{name: 3})  # pyright: ignore[reportArgumentType]


def test_where_tokens_begin_with_no_class_token_their_mean_is_read():
    assert ndformer.create("ptv3_small", "NoPE", classes=3).head.pool == "mean"
    assert ndformer.create("vit_tiny", "NoPE", classes=3, depth=1).head.pool == "class"


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(classes=-1), "classes must be a whole number from 0 on, got -1"),
        (dict(classes=True), "classes must be a whole number from 0 on, got True"),
        (dict(classes=2.5), "classes must be a whole number from 0 on, got 2.5"),
        (dict(classes=10, head=dict(type="Classifier", classes=5)), "got classes=10 and a head.* Leave one out"),
        (dict(depth=0), "depth must be a whole number from 1 on, got 0"),
    ],
)
def test_sizes_that_are_no_sizes_get_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        ndformer.create("vit_tiny", **options)
