"""Absolute encodings that learn: what they start as, how tables are resized, whose weights they are."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ndformer.encodings.learnable_absolute import interpolate, resample
from ndformer.framework.attention import build_encoding
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.optim import parameter_groups
from ndformer.framework.errors import DataError
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from tests.encodings.conftest import weights_of
from tests.encodings.references import lape, learnable_absolute, learnable_fourier, sincos

ROOT = Path(__file__).parents[2]
CASES = {
    **{name: cfg for name, cfg in sincos.CASES.items() if cfg["type"] == "LearnableSincos"},
    **learnable_absolute.CASES,
    **learnable_fourier.CASES,
    **lape.CASES,
}
Make = Callable[..., Any]


def build(dim: int = 24, dims: int = 2, **cfg: Any) -> Any:
    return build_encoding(cfg, dim=dim, heads=1, position_dims=dims, depth=3)


def on_grid(*sizes: int, before: int = 0, placed: bool = False) -> Where:
    cells = torch.cartesian_prod(*[torch.arange(float(n)) for n in sizes]).view(1, -1, len(sizes))
    r = F.pad(cells, (0, 0, before, 0))
    return Where(r, placed=torch.arange(r.shape[1])[None] >= (0 if placed else before), grid=sizes)


def perturb(module: nn.Module) -> None:
    """Weights that start at 0 or 1 would not show what they do."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(0.2 * torch.randn_like(weight))


# ------------------------------------------------------------------------------------------------- against references


@pytest.mark.parametrize("groups, dims", [(2, 2), (2, 4), (3, 3)])
def test_groups_of_axes_share_their_weights_and_fill_their_own_channels(
    groups: int, dims: int, make: Make, reference: Callable[..., Tensor]
) -> None:
    cfg = dict(type="LearnableFourier", groups=groups, features=10, hidden=7, gamma=2)
    model = make(cfg, dims, heads=2, width=12).double()
    layout: dict[str, Any] = dict(positions=torch.rand(2, 5, dims).double() * 9, placed=torch.arange(5)[None] > 0)
    x = torch.randn(2, 5, 24).double()
    assert torch.allclose(model(x, Where(**layout)), reference(model, weights_of(model), x, layout), atol=1e-10)
    code = model.encoding.prepare(Where(torch.full((1, 1, dims), 3.0)))[0, 0].view(groups, -1)
    assert torch.allclose(code[0], code[-1], atol=1e-12)


# ------------------------------------------------------------------------------------------------- LearnableSincos


@pytest.mark.parametrize("options", [{}, dict(preset="pape_repo"), dict(base=100.0)], ids=str)
@pytest.mark.parametrize("dims", [1, 2, 3, 4])
@pytest.mark.parametrize("dim", [24, 25, 27, 31])
def test_learnable_sincos_starts_as_sincos_to_the_last_bit(dim: int, dims: int, options: dict[str, Any]) -> None:
    r = torch.randn(2, 7, dims) * torch.tensor([1.0, 32.0, 1e4, 1e6]).repeat(2)[:7, None]
    fixed, learning = (build(dim, dims, type=name, **options) for name in ("Sincos", "LearnableSincos"))
    for positions in r, r.double():
        where = Where(positions, placed=torch.arange(7)[None] > 0)
        assert torch.equal(fixed.prepare(where), learning.prepare(where))


def test_every_channel_may_turn_along_every_axis() -> None:
    encoding = build(type="LearnableSincos", dims=3)
    encoding.prepare(Where(torch.rand(1, 5, 3)))[..., 1::2].sum().backward()
    assert (encoding.offsets.grad != 0).all()


# ------------------------------------------------------------------------------------------------- LearnableAbsolute


@pytest.mark.parametrize("old", [(6, 6), (14, 5), (1, 7)], ids=str)
@pytest.mark.parametrize("new", [(5, 7), (9, 9), (1, 3), (28, 4)], ids=str)
def test_in_two_dimensions_a_table_is_resized_as_torch_resizes_pictures(
    old: tuple[int, int], new: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    table = torch.randn(*old, 4)  # (to a width of 1, torch 2.13 repeats the first row)
    for cells, tolerance in (table, 2e-6), (table.double(), 1e-14):
        picture = F.interpolate(cells.permute(2, 0, 1)[None], new, mode="bicubic", antialias=True)
        assert (resample(cells, new) - picture[0].permute(1, 2, 0)).abs().max() <= tolerance


def test_in_three_dimensions_the_planes_of_a_table_are_resized_and_then_the_third_axis() -> None:
    table = torch.randn(4, 5, 6, 3).double()
    planes = torch.stack([resample(plane, (7, 3)) for plane in table])
    lines = torch.stack([resample(planes[:, i, j], (2,)) for i in range(7) for j in range(3)], dim=1)
    assert torch.allclose(resample(table, (2, 7, 3)), lines.view(2, 7, 3, 3), atol=1e-14)
    assert resample(table, (4, 5, 6)) is table


@pytest.mark.parametrize("dims", [2, 3])
def test_places_are_looked_up_as_torch_samples_grids_and_outside_at_the_border(dims: int) -> None:
    sizes, extent = (4, 5, 3)[:dims], ((0.0, 6.0), (1.0, 9.0), (-1.0, 8.0))[:dims]
    table, r = torch.randn(*sizes, 8).double(), torch.rand(2, 30, dims).double() * 14 - 3
    unit = torch.stack([(r[..., p] - low) / (high - low) * 2 - 1 for p, (low, high) in enumerate(extent)], dim=-1)
    expected = F.grid_sample(
        table.movedim(-1, 0)[None].expand(2, *[-1] * (dims + 1)),
        unit.flip(-1).view(2, 30, *[1] * (dims - 1), dims),
        align_corners=True,
        padding_mode="border",
    )
    actual = interpolate(table.flatten(0, -2), sizes, extent, r)
    assert torch.allclose(actual, expected.flatten(2).mT, atol=1e-14)


def test_places_have_gradients_between_cells() -> None:
    r = (torch.rand(1, 6, 3).double() * 4).requires_grad_()
    encoding = build(dims=3, type="LearnableAbsolute", grid=(3, 1, 2), extent=((0, 4), (0, 4), (-1, 5))).double()
    assert torch.autograd.gradcheck(lambda r: encoding.prepare(Where(r)), r)


def test_tokens_before_a_grid_have_an_entry_each_as_far_as_there_are_entries() -> None:
    def code(entries: int, before: int, placed: bool = False) -> tuple[Tensor, Tensor]:
        encoding = build(type="LearnableAbsolute", grid=(2, 3), class_entries=entries)
        return encoding.prepare(on_grid(2, 3, before=before, placed=placed))[0, :before], encoding.table

    for entries, before in itertools.product(range(4), range(4)):
        actual, table = code(entries, before)
        fitting = min(entries, before)
        assert torch.equal(actual[:fitting], table[:fitting])
        assert not actual[fitting:].any()
    assert not code(2, 2, placed=True)[0].any()  # they are somewhere, and not on the grid


# ------------------------------------------------------------------------------------------------- LearnableFourier


@pytest.mark.parametrize("gamma", [0.5, 10.0])
def test_waves_start_as_long_as_gamma_says(gamma: float) -> None:
    torch.manual_seed(0)
    encoding = build(type="LearnableFourier", gamma=gamma, features=20000)
    assert encoding.frequencies.std().item() == pytest.approx(1 / gamma, rel=0.02)
    d = torch.tensor([gamma, 0.0])  # one gamma apart, features are alike to exp(-1/2): a kernel of that width
    assert (encoding.frequencies @ d).cos().mean().item() == pytest.approx(0.6065, abs=0.02)


def test_untrained_features_tell_places_apart_by_their_distance() -> None:
    torch.manual_seed(0)
    code = F.normalize(build(192, dims=2, type="LearnableFourier", gamma=3).prepare(on_grid(13, 13))[0], dim=-1)
    alike = (code @ code[6 * 13 + 6]).view(13, 13)  # to the one in the middle
    assert alike[5:8, 5:8].min() > 0.8 > 0.6 > alike[[0, 0, 12, 12], [0, 12, 0, 12]].max()


def test_places_beyond_its_first_reach_are_strangers_to_each_other() -> None:
    encoding = build(type="LearnableFourier", gamma=2, features=20000)
    assert (
        encoding.initial_radius
        == build(type="LaPE", encoding=dict(type="LearnableFourier", gamma=2)).initial_radius
        == 6
    )
    assert (encoding.frequencies @ torch.tensor([0.0, 6.0])).cos().mean().abs() < 0.05


def test_pretrained_features_come_from_an_encoding_a_model_or_a_checkpoint(tmp_path: Path) -> None:
    cfg: dict[str, Any] = dict(type="LearnableFourier", hidden=8)
    trained = Transformer(24, 2, 2, 2, encoding=[cfg, dict(type="PaPE", m=2)])
    own: Any = trained.encoding
    torch.save(own.parts[0].state_dict(), tmp_path / "encoding.pt")
    torch.save(dict(state_dict=trained.state_dict()), tmp_path / "model.pt")
    checkpoint.save(tmp_path / "best.pth", dict(model=trained.state_dict()))
    for file in "encoding.pt", "model.pt", "best.pth":
        actual = build(**cfg, pretrained=str(tmp_path / file))
        assert all(torch.equal(actual.state_dict()[n], w) for n, w in own.parts[0].state_dict().items())


def test_what_does_not_fit_or_cannot_be_read_safely_is_a_sentence(tmp_path: Path) -> None:
    class Code:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    def fails(content: Any, message: str) -> None:
        torch.save(content, tmp_path / "x.pt")
        with pytest.raises(DataError, match=message):
            build(type="LearnableFourier", pretrained=str(tmp_path / "x.pt"))

    fails(Code(), "x.pt is not a checkpoint that can be read safely")
    assert not (tmp_path / "ran").exists()
    weights = build(type="LearnableFourier").state_dict()
    fails(build(type="Sincos").state_dict(), "holds no weights")
    fails(build(type="LearnableSincos").state_dict(), "holds 0 sets of weights of a LearnableFourier")
    fails({f"{at}.{n}": w for at in "ab" for n, w in weights.items()}, "holds 2 sets")
    fails(build(type="LearnableFourier", hidden=5).state_dict(), r"first.weight of shape \(5, 24\).* takes \(32, 24\)")
    with pytest.raises(DataError, match="no checkpoint at"):
        build(type="LearnableFourier", pretrained=str(tmp_path / "nowhere.pt"))


# ------------------------------------------------------------------------------------------------- LaPE


def test_each_layer_norms_what_the_layer_before_it_made_and_the_tokens_stay_as_they_are() -> None:
    model = Transformer(24, 3, 2, 2, encoding=dict(type="LaPE"))
    encoding: Any = model.encoding
    perturb(encoding)
    where = Where(torch.rand(2, 5, 2) * 9)
    state = encoding.prepare(where)
    code = build(type="Sincos").prepare(where)
    x = torch.randn(2, 5, 24)
    assert encoding.embed(x, state) is x
    for i, block in enumerate(model.blocks):
        code = encoding.norms[str(i)](code)
        layer: Any = block
        torch.testing.assert_close(layer.attention.encoding.input(x, state), x + code)
    names = [name for name in model.state_dict() if name.startswith("encoding.")]
    assert names == [f"encoding.norms.{i}.{weight}" for i in range(3) for weight in ("weight", "bias")]


def test_the_wrapped_encoding_may_have_a_unit_of_its_own() -> None:
    r = torch.rand(1, 5, 2) * 9

    def code(**cfg: Any) -> Tensor:
        encoding = build(type="LaPE", **cfg)
        encoding.layer(0, 3)
        return encoding.prepare(Where(r))[0]

    both = code(encoding=dict(type="Sincos", position_scale=0.25), position_scale=[2.0, 4.0])
    assert torch.equal(both, code(position_scale=[0.5, 1.0]))


def test_a_wrapped_table_learns_and_its_needs_are_those_of_the_whole() -> None:
    cfg = dict(type="LaPE", encoding=dict(type="LearnableAbsolute", grid=2))
    model = Transformer(24, 2, 2, 2, encoding=cfg)
    encoding: Any = model.encoding
    assert encoding.needs_grid
    model(TokenSet(torch.randn(1, 7, 24), on_grid(2, 3, before=1))).features.square().sum().backward()
    assert (encoding.encoding.table.grad != 0).any(1).all()
    with pytest.raises(ValueError, match="LaPE requires a full grid.* use an extent, as in LearnableAbsolute"):
        encoding.prepare(Where(torch.zeros(1, 3, 2)))


# ------------------------------------------------------------------------------------------------- all of them


def in_blocks(*names: str) -> list[str]:
    return [f"blocks.{i}.attention.encoding.{name}" for i in (0, 1) for name in names]


@pytest.mark.parametrize(
    "cfg, spared",
    [
        (dict(type="PaPE", m=2, init_radius=[1, 3], offsets=True), in_blocks("a0", "b0")),
        (dict(type="PaPECompact"), in_blocks("factor")),
        (dict(type="PoPE"), in_blocks("delta")),
        (dict(type="SaPE2"), in_blocks("tables")),
        (dict(type="CoPE"), in_blocks("table")),
        (dict(type="Relative", reach=3), in_blocks("tables.0", "tables.1")),
        (dict(type="RelativeBias", reach=3), in_blocks("tables.0", "tables.1")),
        (dict(type="LieRE"), in_blocks("entries")),
        (dict(type="GRAPE"), in_blocks("a", "b", "frequencies")),
        (dict(type="ComRoPE"), in_blocks("b", "theta")),
        (dict(type="STRING"), in_blocks("frequencies", "skew")),
        (dict(type="RoPEMixed"), in_blocks("frequencies")),
        (dict(type="LearnableAbsolute"), ["encoding.table"]),
        (dict(type="LearnableSincos"), ["encoding.offsets"]),
        (dict(type="LearnableFourier"), ["encoding.frequencies"]),
        (dict(type="LaPE", encoding=dict(type="LearnableAbsolute")), ["encoding.encoding.table"]),
        ([dict(type="PaPE", m=2), dict(type="LearnableAbsolute")], ["encoding.parts.1.table"]),
    ],
    ids=str,
)
def test_weights_of_the_encoding_itself_are_spared_decay(cfg: Any, spared: list[str]) -> None:
    model = Transformer(24, 2, 2, 2, encoding=cfg)
    groups = parameter_groups(model, 0.05, no_decay=True)
    (decayed,) = [set(group["names"]) for group in groups if group["weight_decay"]]
    matrices = {name for name, weight in model.named_parameters() if weight.dim() > 1}
    assert matrices - decayed == set(spared)


def test_for_a_later_stage_what_is_only_added_to_tokens_falls_away() -> None:
    names = "LearnableAbsolute", "LaPE", "PaPE", "LearnableFourier"
    whole: Any = build_encoding([dict(type=n) for n in names], dim=24, heads=1, position_dims=2, depth=3)
    later: Any = whole.embedded()
    assert [type(part).__name__ for part in later.parts] == ["PositionEncoding", "LaPE", "PaPE", "PositionEncoding"]
    assert list(later.parts[1:3]) == list(whole.parts[1:3])
    x, where = torch.randn(1, 5, 24), Where(torch.rand(1, 5, 2))
    assert later.embed(x, later.prepare(where)) is x


def test_batch_norm_has_the_statistics_of_all_packed_samples() -> None:
    outputs = []
    for is_packed in (True, False):
        torch.manual_seed(0)
        net = Transformer(32, 1, 2, 2, dict(type="LearnableMLP", norm="batch")).train()
        x, r = torch.randn(1, 90, 32), torch.rand(1, 90, 2)
        where, split = Where(r, segment=torch.tensor([[0] * 40 + [1] * 50])), [40, 50]
        if not is_packed:
            x, r = (pad_sequence(list(t[0].split(split)), batch_first=True) for t in (x, r))
            where = Where(r, valid=torch.arange(50) < torch.tensor(split)[:, None])
        y = net(TokenSet(x, where)).features
        outputs.append(y[0] if is_packed else torch.cat([y[0, :40], y[1]]))
        (norm,) = (m for m in net.modules() if isinstance(m, torch.nn.BatchNorm1d))
        assert int(cast(Any, norm).num_batches_tracked) == 1
    torch.testing.assert_close(*outputs)
