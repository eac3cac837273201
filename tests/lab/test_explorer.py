"""The explorer's numbers: read back from the text and put into the formulas, they are those of attention.logits."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.attention_maps import AttentionMaps
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.view import Cloud, Moments
from ndformer.framework.tokens import Where
from ndformer.lab.explorer import forms
from ndformer.lab.explorer.arrays import Blob, read
from ndformer.lab.explorer.page import page
from tests.encodings.references.gta import random_cameras
from tests.explored import terms_of

DIM, HEADS = 24, 2


def grid(rows, columns, before, placed):
    """Tokens on a grid, behind some that have no place, or one."""
    axes = torch.arange(float(rows)), torch.arange(float(columns))
    positions = torch.cat([torch.full((before, 2), 1.25), torch.cartesian_prod(*axes)])[None]
    return Where(
        positions,
        placed=None if placed else torch.arange(before + rows * columns)[None] >= before,
        grid=(rows, columns),
    )


def free(dims):
    """Anywhere, in two units, with padding and a token without a place."""
    torch.manual_seed(1)
    positions = torch.randn(1, 9, dims) * 3
    return Where(positions, valid=torch.arange(9)[None] < 8, placed=torch.arange(9)[None] > 0)


def with_cameras():
    """Free positions, and a camera for each token."""
    where = free(2)
    return replace(where, cameras=random_cameras(1, where.positions.shape[1]).float())


def look_of(encoding, where):
    torch.manual_seed(0)
    place = dict(dim=DIM, heads=HEADS, position_dims=where.positions.shape[2], depth=2)
    whole = build_encoding(encoding, **place)
    layer = Attention(DIM, HEADS, encoding=whole.layer(1, 2)).eval()
    for name, weight in layer.named_parameters():
        if "frequencies" not in name:
            torch.nn.init.normal_(weight, std=0.4)
    return AttentionMaps(layer, torch.randn(1, where.positions.shape[1], DIM), where, whole.prepare(where))


PARABOLAS = [dict(type="PaPE", m=3), dict(type="PaPERI"), dict(type="PaPECompact"), dict(type="Polynomial", degree=3)]
CURVES = [dict(type="ALiBi"), *(dict(type="RadialBias", curve=curve) for curve in ("log", "power", "gaussian"))]
TURNS = [dict(type="AxialRoPE"), dict(type="RoPEMixed"), dict(type="PoPE")]
CAMERAS = [dict(type="GTA", cameras=0.5), dict(type="PRoPE")]
TABLES = [
    dict(type="RelativeBias", reach=2),
    dict(type="LookHere"),
    dict(type="LogCPB"),
    dict(type="CoPE"),
    dict(type="SaPE2"),
]
OTHERS = [
    dict(type="FIRE"),
    dict(type="Relative", reach=2),
    [dict(type="RoPEMixed"), dict(type="PaPE", m=2)],
    dict(type="NoPE"),
]


def kind_of(encoding):
    return (
        "+".join(one["type"] for one in encoding)
        if isinstance(encoding, list)
        else "-".join(map(str, encoding.values()))
    )


@pytest.mark.parametrize("encoding", [*PARABOLAS, *CURVES, *TURNS, *TABLES, *OTHERS], ids=kind_of)
@pytest.mark.parametrize(
    "where", [grid(3, 4, 2, False), grid(4, 3, 1, True), free(2), free(3)], ids=["unplaced", "placed", "2d", "3d"]
)
def test_terms_computed_from_a_page_are_those_of_the_layer(encoding, where):
    try:
        look = look_of(encoding, where)
    except ValueError as refused:  # grids alone, two dimensions alone
        pytest.skip(str(refused))
    kept = torch.arange(where.positions.shape[1]) if where.valid is None else where.valid[0].nonzero().flatten()
    told, text = forms.layer_data(look, kept, forms.Budget())
    expected = {name: values[0][:, kept][:, :, kept].numpy() for name, values in look.terms().items() if name != "mask"}
    for head in range(HEADS):
        found = terms_of(told, text, head)
        assert list(found) == list(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values[head % len(values)], rtol=1e-5, atol=5e-4, err_msg=name)


@pytest.mark.parametrize(
    "encoding, where, form",
    [
        (PARABOLAS[0], free(3), "polynomial"),
        (CURVES[0], free(3), "distance"),
        (TABLES[0], grid(3, 4, 2, False), "steps"),
        (dict(type="CoPE"), free(2), "whole"),
    ],
)
def test_forms_are_the_shortest_there_are(encoding, where, form):
    told, _ = forms.layer_data(look_of(encoding, where), torch.arange(8), forms.Budget())
    assert {term["form"] for term in told["terms"]} == {form}


@pytest.mark.parametrize("encoding", CAMERAS, ids=kind_of)
def test_cameras_are_in_the_queries_and_keys_of_a_page(encoding):
    look = look_of(encoding, with_cameras())
    told, text = forms.layer_data(look, torch.arange(8), forms.Budget())
    assert {"semantic", "plain"} <= set(told)
    (expected,) = (value for name, value in look.terms().items() if name == "semantic")
    without = look_of(encoding, free(2)).terms()["semantic"]
    for head in range(HEADS):
        found = terms_of(told, text, head)["semantic"]
        np.testing.assert_allclose(found, expected[0, head, :8, :8].numpy(), rtol=1e-5, atol=1e-3)
        assert np.abs(found - without[0, head, :8, :8].numpy()).max() > 0.1


def test_turned_queries_are_there_unturned_too():
    look = look_of(dict(type="RoPEMixed"), grid(3, 4, 1, False))
    told, text = forms.layer_data(look, torch.arange(13), forms.Budget())
    q, k, _ = look.layer.qkv(look.x).unflatten(-1, (3, HEADS, DIM // HEADS)).permute(2, 0, 3, 1, 4)
    q_page, k_page = (read(told["arrays"], text, number) for number in told["plain"])
    expected = (q[0] @ k[0].mT).detach().numpy()
    np.testing.assert_allclose(q_page @ np.swapaxes(k_page, 1, 2), expected, atol=2e-3)
    assert "plain" not in forms.layer_data(look_of(dict(type="PaPE", m=3), free(2)), torch.arange(8), forms.Budget())[0]


def test_numbers_are_short_only_where_nobody_sees_it():
    """A channel with one huge value has no digits left in 16 bits."""
    look = look_of(dict(type="NoPE"), free(2))
    headers = forms.layer_data(look, torch.arange(8), forms.Budget())[0]["arrays"]
    assert [one["kind"] for one in headers] == ["f4", "i2"] * 2  # steps, and whole numbers
    with torch.no_grad():
        look.layer.qkv.weight *= 4
    assert [one["kind"] for one in forms.layer_data(look, torch.arange(8), forms.Budget())[0]["arrays"]] == [
        "f4",
        "u1",
        "i2",
    ] * 2
    with torch.no_grad():
        look.layer.qkv.weight *= 30
    assert [one["kind"] for one in forms.layer_data(look, torch.arange(8), forms.Budget())[0]["arrays"]] == ["f4"] * 2


def test_what_would_be_too_large_is_a_sentence():
    with pytest.raises(DataError, match="'count' of this encoding has no short form .* fewer layers"):
        forms.layer_data(look_of(dict(type="CoPE"), free(2)), torch.arange(8), forms.Budget(100))


def test_arrays_come_back():
    blob, rng = Blob(), np.random.default_rng(0)
    given = [rng.normal(size=(2, 3)).astype(np.float32), rng.normal(size=5), np.array([-np.inf, 1], np.float32)]
    numbers = [blob.add(one) for one in given]
    assert blob.add(given[0].copy()) == numbers[0]  # once
    given_fixed = rng.normal(size=(3, 3, 3)).astype(np.float32)
    fixed = [(bits, blob.add_fixed(given_fixed, bits)) for bits in (16, 20)]
    for one, at in zip(given, numbers):
        np.testing.assert_array_equal(read(blob.headers, blob.text, at), one)
    for bits, number in fixed:
        error = np.abs(read(blob.headers, blob.text, number) - given_fixed)
        assert 0 < error.max() <= np.abs(given_fixed).max() / 2**bits * 1.01


def test_pictures_of_few_colors_are_kept_exactly_and_photos_small():
    rng = np.random.default_rng(0)
    box = np.array([[0, 1, 0, 0, 200, 200]])
    drawing = np.kron(rng.integers(0, 256, (10, 10, 3), dtype=np.uint8), np.ones((20, 20, 1), np.uint8))
    photo = rng.integers(0, 256, (200, 200, 3), dtype=np.uint8)
    for pixels, kind in ((drawing, "png"), (photo, "jpeg"), (photo[:100, :100], "png")):
        (url,) = Moments([pixels], box).data()["pictures"]
        head, text = url.split(",")
        assert head == f"data:image/{kind};base64"
        if kind == "png":
            np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(text)))), pixels)


def test_scenes_are_told_as_they_are():
    boxes = np.array([[0, 1, 0, 0, 2, 2]])
    told = Moments([np.zeros((2, 3, 3), np.uint8)], boxes).data()
    assert (told["height"], told["width"], told["kind"]) == (2, 3, "moments")
    far = np.array([[10.0, 0, 0], [12, 0, 4], [11, 1, 2]])
    cloud = Cloud(far, np.array([0, 0, 1]), far[:2]).data()
    places = np.frombuffer(base64.b64decode(cloud["points"]), "<f4").reshape(3, 3)
    assert np.linalg.norm(places, axis=1).max() == pytest.approx(1)
    assert places[2, 1] > places[0, 1]  # what is up in the data is up in the page


def test_nothing_of_a_page_comes_from_elsewhere():
    hostile = "</script><img src=x onerror=alert(1)>&\u2028\"'"
    made = page(hostile, [dict(name=hostile)], {"numbers-0": "AAAA"})
    assert hostile not in made
    assert made.count("<script") == made.count("</script>") == 3
    assert "onerror=alert(1)>" not in made.replace("onerror=alert(1)&gt;", "")
    assert "default-src 'none'" in made
    assert "unsafe" not in made
