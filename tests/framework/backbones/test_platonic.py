"""PlatonicTransformer: as its formulas written out, and outputs that rotations of its group do not change."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ndformer.cli.rendered import encoding_effects
from ndformer.framework.attention_maps import record_attention
from ndformer.framework.backbones.platonic import PlatonicTransformer, rotation_group
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from ndformer.lab.explorer import forms
from tests.explored import terms_of

ROPE = dict(type="AxialRoPE")
SIZES = {"square": (2, 4), "tetrahedron": (3, 12), "octahedron": (3, 24)}


def model(frames: Any, encoding: Any = "AxialRoPE", depth: int = 2, width: int = 6, **options: Any) -> Any:
    torch.manual_seed(0)
    dims, G = SIZES[frames]
    cfg = dict(type=encoding) if isinstance(encoding, str) else encoding
    built = PlatonicTransformer(width * G, depth, G, dims, cfg, frames=frames, **options)
    for weight in built.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return built.double().eval()


@pytest.mark.parametrize("frames", SIZES)
def test_a_group_has_its_rotations(frames: str) -> None:
    rotations, (dims, G) = rotation_group(frames), SIZES[frames]
    assert rotations.shape == (G, dims, dims)
    assert len({tuple(R.flatten().tolist()) for R in rotations}) == G
    assert torch.equal(rotations @ rotations.mT, torch.eye(dims).double().expand(G, -1, -1))
    assert (torch.linalg.det(rotations) > 0.9).all()
    products = torch.einsum("gpq,hqr->ghpr", rotations, rotations).flatten(0, 1)
    assert all((product == rotations).all(-1).all(-1).any() for product in products)


@pytest.mark.parametrize("frames", ["square", "tetrahedron"])
def test_a_block_is_that_of_the_formulas(frames: str) -> None:
    """Frame by frame: y_g = sum_h w(g^-1 h) x_h, and attention with RoPE at R_g^-1 r."""
    ours, (dims, G), width = model(frames, depth=1, width=2 * SIZES[frames][0], final_norm=False), SIZES[frames], 0
    width, N = 2 * dims, 5
    x, r = torch.randn(1, N, G * width).double(), 4 * torch.randn(1, N, dims).double()
    R, block = rotation_group(frames), ours.blocks[0]

    def linear(layer: Any, parts: list[Tensor]) -> list[Tensor]:
        out = []
        for g in range(G):
            y = layer.bias
            for h in range(G):
                (index,) = [k for k in range(G) if torch.equal(R[k], R[g].T @ R[h])]
                y = y + parts[h] @ layer.weight[index].T
            out.append(y)
        return out

    def normed(norm: Any, parts: list[Tensor]) -> list[Tensor]:
        return [torch.nn.functional.layer_norm(p, [width], norm.weight, norm.bias, 1e-5) for p in parts]

    state = [x[0].unflatten(1, (G, width)).mean(1)] * G
    attended = []
    for g, qkv in enumerate(linear(block.attention.qkv, normed(block.norm1, state))):
        q, k, v = qkv.chunk(3, 1)
        place, logits = r[0] @ R[g], torch.zeros(N, N).double()  # (R' r)' = r' R
        for p in range(dims):  # a pair for each axis, of frequency 1
            angle = place[:, p] - place[:, p][:, None]
            (a, b), (c, d) = q[:, 2 * p : 2 * p + 2].T, k[:, 2 * p : 2 * p + 2].T
            logits += (torch.outer(a, c) + torch.outer(b, d)) * angle.cos()
            logits += (torch.outer(b, c) - torch.outer(a, d)) * angle.sin()
        attended.append((logits / math.sqrt(width)).softmax(1) @ v)
    state = [s + y for s, y in zip(state, linear(block.attention.proj, attended))]
    hidden = linear(block.mlp[0], normed(block.norm2, state))
    state = [s + y for s, y in zip(state, linear(block.mlp[2], [torch.nn.functional.gelu(h) for h in hidden]))]
    expected = torch.stack(state).mean(0).repeat(1, G)
    assert (ours(TokenSet(x, Where(r))).features[0] - expected).abs().max() < 1e-10


@pytest.mark.parametrize(
    "encoding", ["AxialRoPE", dict(type="PaPE", m=4), "ALiBi", "LookHere", dict(type="RotaryND", directions="golden")]
)
@pytest.mark.parametrize("frames", SIZES)
def test_rotations_of_the_group_and_translations_change_nothing(frames: str, encoding: Any) -> None:
    ours, (dims, G) = model(frames, encoding), SIZES[frames]
    x, r = torch.randn(2, 5, 6 * G).double(), torch.randn(2, 5, dims).double()
    valid = torch.arange(5) < torch.tensor([[5], [3]])
    before = ours(TokenSet(x, Where(r, valid=valid))).features
    moved = torch.cat([ours(TokenSet(x, Where(r @ R.T + 3, valid=valid))).features for R in rotation_group(frames)])
    assert (moved.unflatten(0, (G, 2)) - before)[:, valid].abs().max() < 1e-9
    if encoding != "ALiBi":  # which knows distances only
        cos, sin = math.cos(0.5), math.sin(0.5)
        R = torch.eye(dims).double()
        R[0, 0], R[0, 1], R[1, 0], R[1, 1] = cos, -sin, sin, cos
        assert (ours(TokenSet(x, Where(r @ R.T, valid=valid))).features - before)[valid].abs().max() > 1e-6


def test_packed_samples_are_as_alone() -> None:
    ours = model("tetrahedron", "PaPE")
    x, r = torch.randn(1, 7, 72).double(), torch.randn(1, 7, 3).double()
    both = ours(TokenSet(x, Where(r, segment=torch.tensor([[0] * 4 + [1] * 3])))).features
    for tokens in (slice(0, 4), slice(4, 7)):
        alone = ours(TokenSet(x[:, tokens], Where(r[:, tokens]))).features
        assert (both[:, tokens] - alone).abs().max() < 1e-10


def test_encodings_in_a_list_are_both_applied() -> None:
    r = torch.randn(1, 9, 2, dtype=torch.float64)
    given = TokenSet(torch.randn(1, 9, 24, dtype=torch.float64), Where(r))
    both, first = (model("square", encoding)(given).features for encoding in ([ROPE, dict(type="ALiBi")], ROPE))
    assert not torch.allclose(both, first)


def test_objects_are_in_all_frames() -> None:
    numbers = torch.arange(9)[None]
    x, r = torch.randn(1, 9, 32, dtype=torch.float64), torch.randn(1, 9, 2, dtype=torch.float64)
    built = model("square", "ObjectSincos", width=8)
    plain, objects = (built(TokenSet(x, Where(r, objects=o))).features for o in (None, numbers))
    assert not torch.allclose(plain, objects)


def test_it_has_a_share_of_the_weights_of_a_transformer() -> None:
    def count(module: Any) -> int:
        return sum(p.numel() for p in module.parameters() if p.dim() > 1)

    ours, plain = PlatonicTransformer(48, 1, 24, 3, dict(type="ALiBi")), Transformer(48, 1, 24, 3, dict(type="ALiBi"))
    assert count(ours) * 24 == count(plain)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(position_dims=2), "rotates 3 position dimensions, got 2. Set frames='square'"),
        (dict(position_dims=4), "got 4. There are frames for 2 and 3"),
        (dict(frames="cube"), "frames must be 'square', 'tetrahedron' or 'octahedron', got 'cube'"),
        (dict(encoding=dict(type="LearnableAbsolute", grid=(2, 2, 2))), "free positions, got LearnableAbsolute"),
        (dict(dim=50), r"divisible by the 24 frames of 'octahedron', got dim=50 and heads=24. Set dim=72, heads=24"),
        (dict(encoding=dict(type="LearnableMLP")), "one input, got LearnableMLP"),
        (dict(window=4), "must have no window, got 4"),
        (dict(encoding=dict(type="ALiBi", periods=[None, None, 4.0])), "got circular ones. Use Transformer"),
    ],
)
def test_what_cannot_be_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PlatonicTransformer(**(dict(dim=48, depth=1, heads=24, position_dims=3) | options))


@pytest.mark.parametrize("encoding", ["AxialRoPE", dict(type="PaPE", m=4), "ALiBi", "LookHere"])
def test_attention_maps_have_the_heads_of_all_frames_in_memory_and_on_the_page(encoding: Any) -> None:
    ours, (dims, G), N = model("tetrahedron", encoding, depth=1), SIZES["tetrahedron"], 7
    valid, placed = torch.arange(N) < torch.tensor([[N], [5]]), torch.arange(N)[None].expand(2, -1) > 0
    where = Where(3 * torch.randn(2, N, dims).double(), valid, placed)
    with record_attention(ours) as recorded, torch.no_grad():
        ours(TokenSet(torch.randn(2, N, ours.dim).double(), where))
    (maps,) = recorded
    assert maps.where is where
    layer, terms, attention = maps.layer, maps.terms(), maps.attention()
    assert maps.heads == G * layer.heads == attention.shape[1]
    for g, R in enumerate(rotation_group("tetrahedron")):
        turned = Where(where.positions @ R, valid, placed)
        state = ours.encoding.prepare(turned)
        q, k, _ = layer.qkv(maps.x).unflatten(-1, (3, layer.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = q[g::G], k[g::G]
        q, k, bias = layer.encoding(q, k, maps.x[g::G], state)
        logits = q @ k.mT * layer.head_dim**-0.5
        if bias is not None:
            real = (placed[:, :, None] & placed[:, None])[:, None]
            logits = logits + bias.rows(0, N).where(real, 0)
        expected = logits.masked_fill(~valid[:, None, None], -torch.inf).softmax(-1)
        error = (attention[:, g * layer.heads : (g + 1) * layer.heads] - expected).abs()
        assert error.masked_fill(~valid[:, None, :, None], 0).max() < 1e-12  # logits of padding queries are undefined
    page, text = forms.layer_data(maps, torch.arange(N), forms.Budget())
    assert page["heads"] == maps.heads
    for head in range(maps.heads):
        for name, values in terms_of(page, text, head).items():
            np.testing.assert_allclose(values, terms[name][0, head].detach().numpy(), atol=1e-3)


@pytest.mark.parametrize("encoding", ["AxialRoPE", dict(type="PaPE", m=4), "Sincos"])
def test_effects_of_its_encoding_are_those_in_each_frame(encoding: Any) -> None:
    ours, (dims, G), N = model("square", encoding, depth=1), SIZES["square"], 5
    where = Where(3 * torch.randn(1, N, dims).double())
    with record_attention(ours) as recorded, torch.no_grad():
        ours(TokenSet(torch.randn(1, N, ours.dim).double(), where))
        (maps,) = recorded
        effects = encoding_effects(maps, ours.encoding)
        assert effects
        for g, R in enumerate(rotation_group("square")):
            turned = Where(where.positions @ R)
            state, x, heads = ours.encoding.prepare(turned), maps.x[g::G], maps.layer.heads
            same = x.new_ones(1, heads, N, maps.layer.head_dim)
            q, k, bias = maps.layer.encoding(same, same, x, state)
            added = ours.encoding.embed(torch.zeros_like(x), state)
            expected = dict(logit=q @ k.mT / maps.layer.head_dim**0.5)
            if bias is not None:
                expected["bias"] = bias.rows(0, N)
            if added.any():
                unit = added / added.norm(dim=-1, keepdim=True)
                expected["similarity"] = (unit @ unit.mT)[:, None].expand(-1, heads, -1, -1)
            for name, values in effects.items():
                torch.testing.assert_close(values[:, g * heads : (g + 1) * heads], expected[name])
