"""CPE in every backbone: where it acts, on what, and that no sample hears another."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ndformer.framework.backbones.factorized import FactorizedTransformer
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer

DIM = 12


def transformer(encoding: Any, dims: int = 2, **options: Any) -> Any:
    torch.manual_seed(0)
    return Transformer(DIM, 3, 2, dims, encoding, **options).double().eval()


def picture(rows: int = 2) -> TokenSet:
    """A class token and 3 x 4 patches."""
    torch.manual_seed(1)
    cells = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0)).double()
    positions = torch.cat([torch.zeros(1, 2).double(), cells])[None]
    placed = torch.arange(13)[None] > 0
    return TokenSet(torch.randn(rows, 13, DIM).double(), Where(positions, placed=placed, grid=(3, 4)))


@pytest.mark.parametrize("before", [False, True])
@torch.no_grad()
def test_it_is_torchs_depthwise_convolution_of_the_patches_behind_the_first_block(before: bool) -> None:
    model, tokens = transformer(dict(type="CPE", before=before)), picture()
    conv = nn.Conv2d(DIM, DIM, 3, padding=1, groups=DIM).double()
    conv.load_state_dict(model.encoding.conv.state_dict())

    def convolved(x: Tensor) -> Tensor:
        heard = conv(x[:, 1:].transpose(1, 2).reshape(-1, DIM, 3, 4)).flatten(2).transpose(1, 2)
        return torch.cat([x[:, :1], x[:, 1:] + heard], dim=1)

    x = convolved(tokens.features) if before else tokens.features
    for i, block in enumerate(model.blocks):
        x = block(x, tokens.where, None)
        x = convolved(x) if i == 0 and not before else x
    torch.testing.assert_close(model(tokens).features, model.final_norm(x), rtol=0, atol=1e-12)


@torch.no_grad()
def test_it_acts_in_a_list_and_under_checkpointing_as_it_does_alone() -> None:
    alone, tokens = transformer(dict(type="CPE")), picture()
    expected = alone(tokens).features
    together = transformer([dict(type="NoPE"), dict(type="CPE")])
    weights = {name.replace("encoding.conv", "encoding.parts.1.conv"): w for name, w in alone.state_dict().items()}
    together.load_state_dict(weights)
    assert together.encoding.has_block_update
    assert torch.equal(together(tokens).features, expected)
    saving = transformer(dict(type="CPE"))
    saving.load_state_dict(alone.state_dict())
    for block in saving.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    with torch.enable_grad():
        actual = saving(tokens).features
        actual.sum().backward()
    assert torch.equal(actual, expected)


@torch.no_grad()
def test_a_token_hears_the_voxels_beside_its_own_and_no_farther() -> None:
    model: Any = build_encoding(
        dict(type="CPE", voxels=True, position_scale=10.0), dim=DIM, heads=2, position_dims=2, depth=1
    ).double()
    x = torch.randn(1, 3, DIM).double()

    def last_token_matters(coordinate: float) -> bool:
        where = Where(torch.tensor([[[0.0, 0.0], [0.5, 0.5], [coordinate, coordinate]]]).double())
        louder = x.clone()
        louder[:, 2] *= 2
        a, b = (model.block_update(t, model.prepare(where), 1)[0, 0] for t in (x, louder))
        return not torch.equal(a, b)

    assert last_token_matters(0.1)
    assert not last_token_matters(0.2)


@torch.no_grad()
def test_among_voxels_it_is_the_xcpe_of_ptv3() -> None:
    """In networks of one block a stage, whose own is put aside."""
    sizes: dict[str, Any] = dict(
        in_channels=4,
        grid_size=0.2,
        enc_depths=(1, 1),
        enc_channels=(16, 24),
        enc_heads=(2, 2),
        dec_depths=(),
        dec_channels=(),
        dec_heads=(),
        window=16,
        positions="grid",
        stage_scale=True,
    )
    torch.manual_seed(0)
    theirs = PTv3(**sizes).double().eval()
    ours = PTv3(**sizes, cpe="none", encoding=dict(type="CPE", voxels=True, before=True)).double().eval()
    ours.load_state_dict({n.replace("blocks.0.cpe.", "encoding.conv."): w for n, w in theirs.state_dict().items()})
    x, r = torch.randn(1, 50, 4).double(), torch.rand(1, 50, 3).double()
    tokens = TokenSet(x, Where(r, segment=torch.tensor([[0] * 30 + [1] * 20])))
    torch.testing.assert_close(ours(tokens).features, theirs(tokens).features, rtol=0, atol=1e-10)


def test_every_stage_of_ptv3_has_its_own_and_trains_it() -> None:
    torch.manual_seed(0)
    model = PTv3(
        4, 0.2, dict(type="CPE", voxels=True, position_scale=5.0), (1, 2), (16, 16), (2, 2), (1,), (16,), (2,), window=8
    )
    tokens = TokenSet(torch.randn(1, 40, 4), Where(torch.rand(1, 40, 3)))
    model(tokens).features.square().sum().backward()
    grads = {n: p.grad for n, p in model.named_parameters() if "encoding.conv" in n}
    assert len({n.split(".encoding")[0] for n in grads}) == 3
    assert all(g is not None and bool(g.isfinite().all()) for g in grads.values())


@torch.no_grad()
def test_the_slices_of_a_video_are_grids_to_the_factorized_transformer() -> None:
    """Against its parts, called moment by moment."""
    torch.manual_seed(0)
    made = FactorizedTransformer(DIM, 2, 2, 2, 3, dict(type="CPE")).eval()
    cells = torch.cartesian_prod(torch.arange(3.0), torch.arange(2.0), torch.arange(4.0))
    positions = torch.cat([torch.zeros(1, 3), cells])[None]
    x = torch.randn(2, 25, DIM)
    actual = made(TokenSet(x, Where(positions, placed=torch.arange(25)[None] > 0, grid=(3, 2, 4))))
    coordinate = torch.cat([torch.zeros(1, 2), cells[:8, 1:]])[None]
    slices = Where(coordinate, placed=torch.arange(9)[None] > 0, grid=(2, 4))
    patches = x[:, 1:].unflatten(1, (3, 8))
    known = [
        made.space(TokenSet(torch.cat([made.summary.expand(2, 1, -1), patches[:, t]], dim=1), slices)).features[:, 0]
        for t in range(3)
    ]
    moments = Where(torch.tensor([0.0, 0, 1, 2])[None, :, None], placed=torch.arange(4)[None] > 0, grid=(3,))
    expected = made.time(TokenSet(torch.stack([x[:, 0], *known], dim=1), moments))
    torch.testing.assert_close(actual.features, expected.features)


@torch.no_grad()
def test_the_factorized_transformer_answers_for_videos_beside_a_missing_one_as_alone() -> None:
    torch.manual_seed(0)
    made = FactorizedTransformer(DIM, 1, 1, 2, 3, dict(type="CPE")).eval()
    shapes = [(2, 2, 2), (1, 2, 3)]
    cells = [torch.cartesian_prod(*(torch.arange(float(n)) for n in shape)) for shape in shapes]
    x = torch.randn(1, 14, DIM)
    segment = torch.tensor([0] * 8 + [2] * 6)[None]  # sample 1 has no video
    beside = made(TokenSet(x, Where(torch.cat(cells)[None], segment=segment, grids=tuple(shapes))))
    for sample, part, place, shape in zip((0, 2), x.split([8, 6], dim=1), cells, shapes):
        alone = made(TokenSet(part, Where(place[None], grid=shape)))
        torch.testing.assert_close(beside.features[sample, : shape[0]], alone.features[0])
    assert beside.where.valid is not None
    assert beside.where.valid.sum(dim=1).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: transformer(dict(type="CPE", voxels=True), dims=4), "voxels have up to 3 dimensions, got 4"),
        (
            lambda: PTv3(4, 0.2, dict(type="CPE")),
            r"CPE needs tokens on a full grid. For points, use CPE\(voxels=True\)",
        ),
        (
            lambda: transformer(dict(type="CPE"))(TokenSet(torch.zeros(1, 5, DIM), Where(torch.zeros(1, 5, 2)))),
            r"free positions use CPE\(voxels=True\)",
        ),
    ],
)
def test_what_it_is_not_defined_for_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_tokens_without_places_alone_stay_as_they_are() -> None:
    model = transformer(dict(type="CPE", voxels=True))
    x, nowhere = torch.randn(1, 4, DIM).double(), Where(torch.zeros(1, 4, 2).double(), placed=torch.zeros(1, 4).bool())
    assert torch.equal(model.encoding.block_update(x, model.encoding.prepare(nowhere), 1), x)
