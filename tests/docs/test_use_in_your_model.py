"""docs/how-to/use-in-your-model.md: its code runs, on modules with the structure of timm's and transformers'."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.tokens import Where
from ndformer.framework.transformer import Block
from ndformer.integrations.hosting import Batch
from tests.docs.pages import DOCS, code_of

PAGE = (DOCS / "how-to" / "use-in-your-model.md").read_text()
SECTIONS = ("A plain ViT", "Attention, ready to use", "timm", "Hugging Face", "A whole model in plain code")
ENCODINGS = [
    dict(type="NoPE"),
    dict(type="AxialRoPE"),
    dict(type="LookHere"),
    dict(type="LaPE"),
    dict(type="PaPE", m=5),
    [dict(type="Sincos"), dict(type="PaPE", m=5)],
]
GRID = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0))  # (12, 2)


def code(section: str) -> list[str]:
    (text,) = [part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith(section + "\n")]
    return code_of(text)


def run(section: str) -> dict[str, Any]:
    """Run the blocks of a section, and return the names that they define."""
    names: dict[str, Any] = {}
    for number, block in enumerate(code(section)):
        exec(compile(block, f"{section}, block {number}", "exec"), names)
    return names


def assert_same(ours: Callable[[Tensor], Tensor], theirs: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Check that outputs and gradients are equal."""
    results = []
    for function in (ours, theirs):
        leaf = x.clone().requires_grad_()
        out = function(leaf)
        results.append((out, *torch.autograd.grad(out.square().sum(), leaf)))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


def attention_with(qkv: nn.Linear, proj: nn.Linear, heads: int, layer: Any, **options: Any) -> Attention:
    attention = Attention(proj.in_features, heads, layer, **options)
    attention.qkv, attention.proj = qkv, proj
    return attention


def test_every_block_of_code_is_run():
    assert PAGE.count("```") == 2 * sum(len(code(section)) for section in SECTIONS)


@pytest.mark.slow
def test_a_whole_model_in_plain_code_does_what_the_page_says():
    names = run("A whole model in plain code")
    assert names["logits"].shape == (8, 10)
    assert names["tokens"].features.shape == (8, 65, 48)
    assert names["more"].shape == (5, 10)
    torch.testing.assert_close(names["answers"][0].scores, names["logits"][0].softmax(-1))


def test_the_terms_of_ready_attention_sum_to_its_logits():
    names = run("Attention, ready to use")
    assert names["y"].shape == (8, 196, 384)
    assert list(names["terms"]) == ["semantic", "distance", "direction"]
    logits = names["attention"].logits(names["x"], names["where"], names["state"])
    torch.testing.assert_close(sum(names["terms"].values()), logits, rtol=1e-4, atol=1e-4)


# A plain ViT


def test_the_vit_block_has_13_lines():
    block = code("A plain ViT")[0]
    lines = [line for line in block[block.index("class Block") :].splitlines() if line.strip()]
    assert len(lines) == 13
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize("config", ENCODINGS, ids=str)
def test_the_vit_block_is_ndformers_block(config):
    encoding = build_encoding(config, dim=32, heads=4, position_dims=2, depth=1)
    theirs = run("A plain ViT")["Block"](32, 4, encoding.layer(0, 1))
    ours = Block(32, 4, theirs.encoding)
    ours.attention = attention_with(theirs.qkv, theirs.proj, 4, theirs.encoding)
    ours.norm1, ours.norm2, ours.mlp = theirs.norm1, theirs.norm2, theirs.mlp
    where = Where(GRID[None])
    state = encoding.prepare(where)
    assert_same(lambda x: ours(x, where, state), lambda x: theirs(x, where, state), torch.randn(2, 12, 32))


@pytest.mark.parametrize("config", ENCODINGS, ids=str)
def test_the_vit_trains_every_parameter(config):
    model = run("A plain ViT")["ViT"](dim=64, heads=4, depth=2, encoding=config)
    model(torch.rand(2, 3, 48, 64)).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []


def test_the_vit_knows_where_its_patches_are():
    images = torch.rand(1, 3, 48, 64)
    shuffled = images.unflatten(3, (4, 16))[:, :, :, [2, 0, 3, 1]].flatten(3, 4)
    make = run("A plain ViT")["ViT"]
    for config, blind in ((dict(type="NoPE"), True), (dict(type="PaPE", m=50), False), (dict(type="Sincos"), False)):
        model = make(dim=64, heads=4, depth=2, encoding=config)
        assert torch.allclose(model(images), model(shuffled), atol=1e-5) == blind


def test_a_class_token_is_nowhere():
    where = run("A plain ViT")["after_class_token"](Where(GRID[None]))
    assert where.placed is not None
    assert where.placed.tolist() == [[False] + [True] * 12]
    assert torch.equal(where.positions[0, 1:], GRID)
    encoding = build_encoding(dict(type="PaPE"), dim=32, heads=4, position_dims=2, depth=1)
    attention = Attention(32, 4, encoding.layer(0, 1))
    parts = attention.logits(torch.randn(2, 13, 32), where, encoding.prepare(where), parts=True)
    bias = parts["distance"] + parts["direction"]
    assert not bias[:, :, 0].any()
    assert not bias[:, :, :, 0].any()
    assert bias[:, :, 1:, 1:].any()


# timm


class TimmAttention(nn.Module):
    """An attention layer with the names and the computation of timm's."""

    def __init__(self, dim: int, num_heads: int, qk_norm: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj, self.proj_drop = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Dropout(0.0)
        self.q_norm = nn.LayerNorm(dim // num_heads) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(dim // num_heads) if qk_norm else nn.Identity()

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, attn_mask, is_causal=is_causal)
        return self.proj_drop(self.proj(y.transpose(1, 2).flatten(2)))


class TimmBlock(nn.Module):
    def __init__(self, dim: int, num_heads: int, qk_norm: bool) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim), TimmAttention(dim, num_heads, qk_norm)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(self.norm1(x), attn_mask=None, is_causal=False)


class TimmViT(nn.Module):
    blocks: Any

    def __init__(self, qk_norm: bool = False) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(TimmBlock(32, 4, qk_norm) for _ in range(2)))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


def with_positions(vit: TimmViT, config: Any, where: Where) -> Any:
    """Add an encoding to a timm model as the page does, for tokens at these positions."""
    encoding, place = run("timm")["add_positions"](vit, config)
    place.enter(Batch(where, encoding.prepare(where)))
    return place


@pytest.mark.parametrize("qk_norm", [False, True])
def test_without_positions_a_timm_model_stays_as_it_was(qk_norm):
    vit, x = TimmViT(qk_norm), torch.randn(2, 12, 32)
    before = vit(x)
    with_positions(vit, dict(type="NoPE"), Where(GRID[None]))
    torch.testing.assert_close(vit(x), before)


@pytest.mark.parametrize("config", ENCODINGS, ids=str)
@pytest.mark.parametrize("qk_norm", [False, True])
def test_timms_attention_becomes_ndformers(config, qk_norm):
    vit = TimmViT(qk_norm)
    place = with_positions(vit, config, Where(GRID[None]))
    theirs, attn = vit.blocks[1].attn, vit.blocks[1].attn.attn
    ours = attention_with(attn.qkv, attn.proj, 4, theirs.encoding, qk_norm=qk_norm)
    ours.q_norm, ours.k_norm = attn.q_norm, attn.k_norm
    assert_same(lambda x: ours(x, place.where, place.state), theirs, torch.randn(2, 12, 32))
    vit(torch.randn(2, 12, 32)).square().sum().backward()
    assert [name for name, p in vit.named_parameters() if p.grad is None] == []


def test_layers_of_a_timm_model_have_weights_of_their_own():
    vit = TimmViT()
    run("timm")["add_positions"](vit, dict(type="PaPE", m=5))
    first, second = (block.attn.encoding.wp for block in vit.blocks)
    assert not torch.equal(first, second)
    assert sum(name.endswith("wp") for name in vit.state_dict()) == 2


def test_threads_of_a_timm_model_have_their_own_positions():
    """Issue 44.4: a thread that entered its batch changed the positions of all."""
    vit, x = TimmViT(), torch.randn(2, 12, 32)
    place = with_positions(vit, dict(type="PaPE", m=5), Where(GRID[None]))
    before, far = vit(x), Where(3 * GRID[None])

    def call() -> Tensor:
        encoding = build_encoding(dict(type="PaPE", m=5), dim=32, heads=4, position_dims=2, depth=2)
        place.enter(Batch(far, encoding.prepare(far)))
        return vit(x)

    with ThreadPoolExecutor(1) as pool:
        assert not torch.allclose(pool.submit(call).result(), before)
    torch.testing.assert_close(vit(x), before)


def test_padding_reaches_no_token_of_a_timm_model():
    vit = TimmViT(qk_norm=True)
    with_positions(vit, dict(type="PaPE", m=5), Where(GRID[None], valid=torch.arange(12)[None] < 9))
    x = torch.randn(2, 12, 32)
    spoilt = x.clone()
    spoilt[:, 9:] = 1e4
    torch.testing.assert_close(vit(x)[:, :9], vit(spoilt)[:, :9])


@pytest.mark.parametrize("config", ENCODINGS[:4], ids=str)
def test_under_autocast_a_timm_model_with_norms_still_runs(config):
    class Norm(nn.LayerNorm):
        """As on a GPU, where norms return float32 under autocast."""

        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input.float())

    vit = TimmViT(qk_norm=True)
    for block in vit.blocks:
        block.attn.q_norm, block.attn.k_norm = Norm(8), Norm(8)
    with_positions(vit, config, Where(GRID[None]))
    x = torch.randn(2, 12, 32)
    with torch.autocast("cpu", torch.bfloat16):
        half = vit(x)
    torch.testing.assert_close(half.float(), vit(x), rtol=0.05, atol=0.05)


# Hugging Face


@pytest.fixture
def padded():
    """Three samples of 12, 7 and 1 tokens, with different positions."""
    mask = (torch.arange(12) < torch.tensor([[12], [7], [1]])).long()
    return torch.randn(3, 12, 32), torch.randn(3, 12, 2) * 4, mask


@pytest.mark.parametrize("config", ENCODINGS, ids=str)
def test_padding_changes_nothing_and_gets_no_gradient(config, padded):
    x, positions, mask = padded
    model = run("Hugging Face")["Encoder"](32, 4, 2, encoding=config)
    leaf = x.clone().requires_grad_()
    out = model(leaf, positions, mask)
    for row, length in zip(range(3), mask.sum(1).tolist()):  # alone, without padding or mask
        alone = model(x[row : row + 1, :length], positions[row : row + 1, :length])
        torch.testing.assert_close(out[row, :length], alone[0], rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(out[mask.bool()].square().sum(), leaf)
    assert not gradient[~mask.bool()].any()
    assert gradient[mask.bool()].any(dim=-1).all()
    spoilt = x.masked_fill(~mask.bool()[..., None], 1e4)
    nowhere = positions.masked_fill(~mask.bool()[..., None], -1e4)
    torch.testing.assert_close(model(spoilt, nowhere, mask)[mask.bool()], out[mask.bool()], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", ENCODINGS, ids=str)
def test_separate_projections_make_ndformers_attention(config, padded):
    x, positions, mask = padded
    encoding = build_encoding(config, dim=32, heads=4, position_dims=2, depth=1)
    theirs = run("Hugging Face")["SelfAttention"](32, 4, encoding.layer(0, 1))
    projections = theirs.q_proj, theirs.k_proj, theirs.v_proj
    ours = attention_with(nn.Linear(32, 96), theirs.out_proj, 4, theirs.encoding)
    with torch.no_grad():
        ours.qkv.weight.copy_(torch.cat([p.weight for p in projections]))
        ours.qkv.bias.copy_(torch.cat([p.bias for p in projections]))
    where = Where(positions, valid=mask.bool())
    state = encoding.prepare(where)
    valid = mask.bool()
    assert_same(lambda y: ours(y, where, state)[valid], lambda y: theirs(y, where, state)[0][valid], x)


def test_additive_encodings_reach_the_encoder(padded):
    x, positions, mask = padded
    model = run("Hugging Face")["Encoder"](32, 4, 2, encoding=dict(type="Sincos"))
    assert not torch.allclose(model(x, positions, mask), model(x, positions + 1, mask))


def test_the_encoder_trains_every_parameter(padded):
    x, positions, mask = padded
    model = run("Hugging Face")["Encoder"](32, 4, 2)
    model(x, positions, mask)[mask.bool()].square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []
