"""What the shared transformer promises: pre-norm blocks, whole samples dropped, the same numbers however computed."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.tokens import TokenSet, Where, join
from ndformer.framework.transformer import Block, DropPath, LayerScale, Transformer
from tests.framework.helpers import ANYWHERE

DIM, HEADS = 24, 2


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def model(encoding: Any = None, seed: int = 0, depth: int = 2, **options: Any) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(DIM, depth, HEADS, position_dims=2, encoding=encoding, **options)


def tokens(rows: int = 2, n: int = 6, dtype: torch.dtype = torch.float32, **masks: Any) -> TokenSet:
    return TokenSet(torch.randn(rows, n, DIM, dtype=dtype), Where(torch.randint(0, 5, (rows, n, 2)).float(), **masks))


def gradients(network: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


# ---------------------------------------------------------------------------------------------------- structure


def test_weights_of_several_position_spaces_keep_their_names_in_checkpoints() -> None:
    network = Transformer(DIM, 2, HEADS, dict(image=2, points=3), dict(type="PaPE", m=4))
    names = [f"layers.{space}.{i}.{w}" for space in ("image", "points") for i in (0, 1) for w in ("wp", "wa", "wb")]
    found = [name for name, _ in network.named_parameters()]
    assert [name for name in found if "blocks" not in name] == [*names, "final_norm.weight", "final_norm.bias"]
    assert not any("encoding" in name for name in found)


def test_weights_that_layers_share_keep_their_names_in_checkpoints() -> None:
    class Learned(PositionEncoding):
        def __init__(self, dim: int, heads: int, position_dims: int, depth: int) -> None:
            super().__init__(dim, heads, position_dims, depth)
            self.table = nn.Parameter(torch.zeros(dim))

    several = Transformer(DIM, 2, HEADS, dict(image=2, points=3), dict(type=Learned))
    assert list(several.state_dict())[:3] == ["encoding.image.table", "encoding.points.table", "blocks.0.norm1.weight"]
    assert list(model(dict(type=Learned)).state_dict())[:2] == ["encoding.table", "blocks.0.norm1.weight"]


def test_a_space_among_several_is_what_it_would_be_alone() -> None:
    several = Transformer(DIM, 2, HEADS, dict(image=2, points=3), dict(type="PaPE", m=4))
    alone, given = model(dict(type="PaPE", m=4), seed=1), tokens()
    own = {f"blocks.{i}.attention.encoding.{w}" for i in (0, 1) for w in ("wp", "wa", "wb")}
    assert set(alone.load_state_dict(several.state_dict(), strict=False).missing_keys) == own
    for i in (0, 1):
        alone.get_submodule(f"blocks.{i}.attention.encoding").load_state_dict(
            several.get_submodule(f"layers.image.{i}").state_dict()
        )
    assert torch.equal(several(given, "image").features, alone(given).features)
    assert torch.equal(alone(given, "image").features, alone(given).features)  # of one space, any name will do


def standardized(x: Tensor, norm: Any) -> Tensor:
    if isinstance(norm, nn.Identity):
        return x
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def perceived(x: Tensor, block: Any) -> Tensor:
    first, _, second = block.mlp
    hidden = x @ first.weight.T + first.bias
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
    return hidden @ second.weight.T + second.bias


@pytest.mark.parametrize("initial_norm", [False, True])
@pytest.mark.parametrize("final_norm", [False, True])
@pytest.mark.parametrize("layer_scale", [None, 0.1])
def test_blocks_are_pre_norm_and_norms_stand_at_the_ends(
    initial_norm: bool, final_norm: bool, layer_scale: float | None
) -> None:
    network = model(layer_scale=layer_scale, initial_norm=initial_norm, final_norm=final_norm, mlp_ratio=1.5).double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    given = tokens(dtype=torch.float64)
    x = standardized(given.features, network.initial_norm)
    for block in network.blocks:
        part: Any = block
        one, two = (1.0, 1.0) if layer_scale is None else (part.scale1.gamma, part.scale2.gamma)
        x = x + one * part.attention(standardized(x, part.norm1), given.where)
        x = x + two * perceived(standardized(x, part.norm2), part)
        assert part.mlp[0].out_features == 36
    torch.testing.assert_close(network(given).features, standardized(x, network.final_norm))
    assert isinstance(network.initial_norm, nn.LayerNorm) == initial_norm
    assert isinstance(network.final_norm, nn.LayerNorm) == final_norm


def test_layer_scale_starts_small_and_is_learned() -> None:
    scale = LayerScale(3, 1e-5)
    torch.testing.assert_close(scale(torch.ones(2, 3)), torch.full((2, 3), 1e-5))
    assert [p.shape for p in scale.parameters()] == [(3,)]
    block = Block(DIM, HEADS, layer_scale=1e-9)
    x = torch.randn(1, 4, DIM)
    torch.testing.assert_close(block(x, Where(torch.zeros(1, 4, 2)), None), x)


def test_embedding_comes_first_and_positions_are_prepared_once() -> None:
    network = model(dict(type="Sincos"))
    calls: list[str] = []
    encoding: Any = network.encoding
    prepare, embed = encoding.prepare, encoding.embed
    encoding.prepare = lambda where: calls.append("prepare") or prepare(where)
    encoding.embed = lambda x, state: calls.append("embed") or embed(x, state)
    given = tokens()
    y = network(given).features
    assert calls == ["prepare", "embed"]
    plain = model()
    plain.load_state_dict(network.state_dict())
    embedded = TokenSet(embed(given.features, prepare(given.where)), given.where)
    assert torch.equal(plain(embedded).features, y)


def test_tokens_come_out_where_they_went_in() -> None:
    given = join(tokens(n=4), tokens(n=3))
    y = model(dict(type="PaPE"))(given)
    assert y.where is given.where
    assert y.modality is given.modality
    assert y.features.shape == given.features.shape


def test_options_reach_every_block() -> None:
    network = model(drop_path=[0.0, 0.25], qk_norm=True, backend="dense", depth=2)
    blocks: list[Any] = list(network.blocks)
    assert [b.drop_path.rate for b in blocks] == [0.0, 0.25]
    assert [b.attention.backend for b in blocks] == ["dense", "dense"]
    assert all(isinstance(b.attention.q_norm, nn.LayerNorm) for b in blocks)
    assert [b.drop_path.rate for b in model(drop_path=0.1, depth=3).blocks] == [0.1] * 3  # type: ignore[union-attr]
    norms = [part for part in model(norm_eps=1e-3, initial_norm=True).modules() if isinstance(part, nn.LayerNorm)]
    assert {norm.eps for norm in norms} == {1e-3}
    with pytest.raises(ValueError, match=r"one rate or one per layer \(2\), got 3"):
        model(drop_path=[0.1, 0.2, 0.3], depth=2)


# ---------------------------------------------------------------------------------------------------- drop path


def test_drop_path_leaves_out_whole_samples_and_scales_up_the_rest() -> None:
    drop, where = DropPath(0.25), Where(torch.zeros(4000, 3, 1))
    y = drop(torch.ones(4000, 3, 2), where)
    kept = y[:, 0, 0] != 0
    torch.testing.assert_close(y, (kept / 0.75)[:, None, None].expand_as(y))
    assert abs(kept.float().mean().item() - 0.75) < 0.03
    assert torch.equal(drop.eval()(y, where), y)
    assert torch.equal(DropPath(0.0)(y, where), y)


@pytest.mark.parametrize("shared", [False, True])
def test_drop_path_treats_each_packed_sample_for_itself(shared: bool) -> None:
    """Runs, not numbers: equal numbers apart are different samples; the same number in two rows too."""
    segment = torch.tensor([[0, 0, 1, 1, 1, 0]])
    rows = 3000
    where = Where(torch.zeros(1, 6, 1), segment=segment if shared else segment.expand(rows, 6))
    y = DropPath(0.5)(torch.ones(rows, 6, 2), where)
    kept = y[..., 0] > 0
    assert torch.equal(y, kept[..., None].expand_as(y) * 2.0)
    a, b, c = kept[:, :2], kept[:, 2:5], kept[:, 5:]
    for sample in (a, b, c):
        assert torch.equal(sample, sample[:, :1].expand_as(sample))
        assert abs(sample[:, 0].float().mean().item() - 0.5) < 0.05
    for one, other in [(a, b), (a, c), (b, c)]:
        assert abs((one[:, 0] == other[:, 0]).float().mean().item() - 0.5) < 0.05


def test_a_dropped_branch_adds_nothing_and_the_two_branches_drop_apart() -> None:
    block = Block(DIM, HEADS, drop_path=1 - 1e-9)
    x, where = torch.randn(8, 4, DIM), Where(torch.zeros(8, 4, 2))
    assert torch.equal(block(x, where, None), x)
    block.eval()
    assert not torch.equal(block(x, where, None), x)

    half = Block(DIM, HEADS, drop_path=0.5).double()
    x = torch.randn(1, 4, DIM, dtype=torch.float64)
    once = x + half.eval().attention(half.norm1(x), Where(torch.zeros(1, 4, 2)), None) * 2
    ends = [x, once, x + half.mlp(half.norm2(x)) * 2, once + half.mlp(half.norm2(once)) * 2]
    many = half.train()(x.expand(400, 4, DIM), Where(torch.zeros(1, 4, 2)), None)
    counts = [int(torch.isclose(many, end).all(-1).all(-1).sum()) for end in ends]
    assert sum(counts) == 400
    assert min(counts) > 60


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
def test_drop_path_takes_probabilities_below_one(rate: float) -> None:
    with pytest.raises(ValueError, match="from 0 to below 1"):
        DropPath(rate)


# ---------------------------------------------------------------------------------------------------- the same numbers


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_nothing_that_stands_in_padding_reaches_a_gradient(layout: str) -> None:
    network = model(dict(type="PaPE"), initial_norm=True)
    valid = torch.arange(6) < torch.tensor([[6], [4]])
    masks: dict[str, Any] = {"valid": valid} if layout == "padded" else {"segment": torch.where(valid, 3, -1)}
    given = tokens(**masks)
    results = []
    for junk in (0.0, math.nan, math.inf):
        network.zero_grad()
        y = network(TokenSet(given.features.masked_fill(~valid[..., None], junk), given.where)).features
        y[valid].square().sum().backward()
        results.append(gradients(network))
    for found in results[1:]:
        for weight, gradient in found.items():
            assert torch.equal(gradient, results[0][weight]), weight


@pytest.mark.parametrize("kind", ["autocast", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("name", ANYWHERE)
def test_a_model_learns_in_any_precision(name: str, kind: str) -> None:
    """With gradients in the dtype of the weights, which autocast leaves in float32."""
    options: dict[str, Any] = dict(encoding=dict(type=name), qk_norm=True, layer_scale=0.5)
    given = tokens(placed=torch.arange(6).expand(2, 6) > 0, valid=torch.arange(6) < torch.tensor([[6], [4]]))
    exact = model(**options)(given).features
    dtype = torch.float32 if kind == "autocast" else getattr(torch, kind)
    network = model(**options).to(dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        y = network(TokenSet(given.features.to(dtype), given.where)).features
    assert y.dtype == dtype or kind == "autocast"
    torch.testing.assert_close(y.float(), exact, rtol=0.1, atol=0.02 if kind.startswith("float") else 0.1)
    y.float().square().sum().backward()
    assert {g.dtype for g in gradients(network).values()} == {dtype}
    assert all(bool(g.isfinite().all()) for g in gradients(network).values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ANYWHERE)
def test_a_state_dict_carries_all_that_was_learned(name: str) -> None:
    options: dict[str, Any] = dict(encoding=dict(type=name), qk_norm=True, layer_scale=0.5, initial_norm=True)
    network, other, given = model(**options), model(seed=1, **options), tokens()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.2)
    y = network(given).features
    assert not torch.equal(other(given).features, y)
    other.load_state_dict(network.state_dict())
    assert torch.equal(other(given).features, y)
    for same in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(same(given).features, y)


@pytest.mark.parametrize("name", ANYWHERE)
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    def train(seed: int) -> Tensor:
        network = model(dict(type=name), seed=seed, drop_path=0.3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        given = tokens(segment=torch.tensor([[0, 0, 0, 1, 1, -1], [5, 6, 6, 6, 6, 6]]))
        for _ in range(3):
            optimizer.zero_grad()
            network(given).features.square().mean().backward()
            optimizer.step()
        return network(given).features.detach()

    assert torch.equal(train(3), train(3))
    assert not torch.equal(train(3), train(4))


def test_samples_of_all_lengths_and_windows_are_augmented_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions of a batch are moved and scaled by one draw, whatever groups are prepared apart."""
    factors = []
    plain = PositionEncoding._augmented

    def recorded(self: Any, positions: Tensor, where: Where) -> Tensor:
        moved = plain(self, positions, where)
        factors.append(float((moved[0, 1] - moved[0, 0]).sum() / (positions[0, 1] - positions[0, 0]).sum()))
        return moved

    monkeypatch.setattr(PositionEncoding, "_augmented", recorded)
    encoding = dict(type="ALiBi", rescale=2.0, shift=1.0)
    r = torch.rand(1, 100, 2) * 9
    packed = Where(r, segment=torch.tensor([[0] * 40 + [1] * 60]))
    grid = Where(torch.cartesian_prod(torch.arange(8.0), torch.arange(8.0))[None], grid=(8, 8))
    windows = model(encoding, window=4, global_blocks=[1])
    for network, where in ((model(encoding), packed), (windows, grid)):
        network.train()
        for _ in range(2):
            network(TokenSet(torch.randn(1, where.positions.shape[1], 24), where))
    assert len(factors) == 8
    for first, second in zip(factors[::2], factors[1::2]):
        assert first == pytest.approx(second, rel=1e-4)
    assert len({round(factor, 3) for factor in factors}) == 4  # each forward pass draws anew
