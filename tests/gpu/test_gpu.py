"""On a GPU every backend gives the numbers that the CPU gives in float64, forward and backward."""

import functools
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention, attend_encoded, build_encoding
from ndformer.framework.kernels.flex import FAILED, compiled
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from ndformer.modalities.pointcloud.sampling import farthest, nearest, take
from tests.encodings.references.gta import random_cameras
from tests.framework.helpers import ANYWHERE, CAMERAS

DEVICE = "cuda"
HEADS, WIDTH = 2, 16
DIM = HEADS * WIDTH
LAYOUTS = ["plain", "padded", "packed", "unplaced"]
BACKENDS = ["dense", "sdpa", "flex", "fused"]
REFUSED = {  # biases of whole rows, and biases that the fused kernels do not have
    "flex": {"CoPE", "FIRE"},
    "fused": {"CoPE", "DirectionalRPE", "FIRE", "LookHere", "PoPE", "Polynomial", "Relative", "RelativeBias"},
}

# the compiler's advice, which is not for us; and where it fails, 'dense' is tested in the place of 'flex'
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*attribute of a Tensor that is not a leaf.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:backend 'flex' must compile.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*TensorFloat32.*"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch._inductor"),
]

Results = dict[str, Tensor]  # the output and the gradients, in float64 on CPU


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Each test compiles for itself: torch gives up on a function after eight variants."""
    compiled.cache_clear()
    torch.compiler.reset()
    FAILED.clear()
    yield
    compiled.cache_clear()


def places(layout: str, tokens: int = 75, dims: int = 2, cameras: bool = False) -> Where:
    where = _places(layout, tokens, dims)
    if not cameras:
        return where
    torch.manual_seed(3)
    matrices = random_cameras(3, tokens)
    matrices[..., :3, 3] *= 0.1  # nearly turns alone, which lose few digits
    return replace(where, cameras=matrices)


def _places(layout: str, tokens: int, dims: int) -> Where:
    generator = torch.Generator().manual_seed(0)
    positions = torch.randint(0, 14, (3, tokens, dims), generator=generator).double()
    n = torch.arange(tokens).repeat(3, 1)
    if layout == "padded":  # one row whole, one of two tokens, one of nothing but padding
        return Where(positions, valid=n < torch.tensor([[tokens], [2], [0]]))
    if layout == "packed":  # samples of many lengths; equal numbers apart are not one sample
        bounds = torch.tensor([0, 1, 3, 10, 40, tokens - 5])
        segment = torch.bucketize(n, bounds, right=True) % 3
        return Where(positions, segment=torch.where(n >= tokens - 5, -1, segment))
    if layout == "unplaced":
        return Where(positions, placed=n >= torch.tensor([[1], [0], [4]]))
    return Where(positions)


def relative(ours: Tensor, exact: Tensor) -> float:
    return ((ours - exact).abs().max() / max(1.0, exact.abs().max().item())).item()


def ratio(ours: Tensor, exact: Tensor) -> float:
    return ((ours - exact).norm() / exact.norm().clamp(min=1e-30)).item()


# ------------------------------------------------------------------------------------------- one attention call


def inputs(where: Where, heads: int, width: int) -> list[Tensor]:
    """q, k, v (B, H, N, h) and x (B, N, dim) in values that 16 bits hold: all precisions start from them."""
    B, N, _ = where.positions.shape
    generator = torch.Generator().manual_seed(1)
    shapes = [(B, heads, N, width)] * 3 + [(B, N, heads * width)]
    return [torch.randn(*shape, generator=generator).bfloat16().double() for shape in shapes]


def attention(
    cfg: dict[str, Any] | None, where: Where, backend: str, dtype: torch.dtype, device: str, heads: int, width: int
) -> Results:
    """Of one call, from the same q, k, v, x and weights whatever the dtype; float64 is float64 throughout."""
    exact = torch.float64 if dtype == torch.float64 else torch.float32  # of positions, x and weights
    q, k, v, x = (t.to(device) for t in inputs(where, heads, width))
    q, k, v = (t.to(dtype).requires_grad_() for t in (q, k, v))
    x = x.to(exact).requires_grad_()
    where = where.to(device, exact)

    torch.manual_seed(2)
    dims = where.positions.shape[-1]
    encoding = build_encoding(cfg, dim=heads * width, heads=heads, position_dims=dims, depth=2)
    layer = encoding.layer(0, 2)
    if cfg is not None and cfg["type"] == "RelativeBias":  # its tables start near 0
        for table in layer.parameters():
            nn.init.normal_(table)
    layer.to(device, exact)
    y = attend_encoded(layer, q, k, v, x, where, encoding.to(device, exact).prepare(where), backend)

    direction = torch.randn(y.shape, generator=torch.Generator().manual_seed(3)).to(y)
    named = {"q": q, "k": k, "v": v, "x": x, **dict(layer.named_parameters())}
    gradients = torch.autograd.grad((y * direction).sum(), list(named.values()), allow_unused=True)
    found = {"y": y.detach(), **{name: g for name, g in zip(named, gradients) if g is not None}}
    return {name: t.double().cpu() for name, t in found.items()}


@functools.cache
def on_cpu(name: str, layout: str, heads: int = HEADS, width: int = WIDTH, tokens: int = 75) -> Results:
    return attention(*cfg_and_places(name, layout, tokens), "dense", torch.float64, "cpu", heads, width)


def cfg_and_places(name: str, layout: str, tokens: int = 75) -> tuple[dict[str, Any], Where]:
    """Return the config of an encoding and positions, with cameras if it uses them."""
    return dict(type=name) | CAMERAS.get(name, {}), places(layout, tokens, cameras=name in CAMERAS)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 5e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ANYWHERE)
def test_every_backend_agrees_with_the_cpu(
    name: str, backend: str, layout: str, dtype: torch.dtype, tolerance: float
) -> None:
    exact = on_cpu(name, layout)
    if name in REFUSED.get(backend, ()):
        with pytest.raises((TypeError, ValueError), match=f"backend '{backend}'"):
            attention(*cfg_and_places(name, layout), backend, dtype, DEVICE, HEADS, WIDTH)
        return
    ours = attention(*cfg_and_places(name, layout), backend, dtype, DEVICE, HEADS, WIDTH)
    assert ours.keys() == exact.keys()
    for what, value in ours.items():
        assert relative(value, exact[what]) <= tolerance * (1 if what == "y" else 4), what


@pytest.mark.parametrize("tokens", [1, 5, 197])
@pytest.mark.parametrize("width", [4, 20, 64])
def test_flex_takes_heads_of_any_width_and_rows_of_any_length(width: int, tokens: int) -> None:
    where = Where(places("plain", tokens).positions, valid=torch.arange(tokens) < torch.tensor([[tokens], [1], [0]]))
    exact, ours = (
        attention(dict(type="PaPE", m=3), where, backend, dtype, device, HEADS, width)
        for backend, dtype, device in [("dense", torch.float64, "cpu"), ("flex", torch.float32, DEVICE)]
    )
    for what, value in ours.items():
        assert relative(value, exact[what]) <= (5e-5 if what == "y" else 2e-4), what


@pytest.mark.parametrize("name", ["ALiBi", "PaPE"])
def test_float64_stays_float64(name: str) -> None:
    exact = on_cpu(name, "padded")
    for backend in ("auto", "dense", "sdpa"):
        ours = attention(dict(type=name), places("padded"), backend, torch.float64, DEVICE, HEADS, WIDTH)
        assert max(relative(value, exact[what]) for what, value in ours.items()) <= 1e-10, backend


# ---------------------------------------------------------------------------------------------------- 16 bit


def grid(*sizes: int) -> Tensor:
    return torch.cartesian_prod(*(torch.arange(float(size)) for size in sizes)).view(-1, len(sizes))


def some(positions: Tensor, tokens: int = 1024) -> Tensor:
    """At most so many of the positions, (1, N, P): what matters is how far they reach, not how many there are."""
    chosen = torch.randperm(len(positions), generator=torch.Generator().manual_seed(0))[:tokens]
    return positions[chosen.sort().values][None]


def uniform(*sizes: float) -> Tensor:
    return torch.rand(1024, len(sizes), generator=torch.Generator().manual_seed(0)) * torch.tensor(sizes)


CASES = {
    "image 14 x 14": grid(14, 14),
    "image 32 x 32": grid(32, 32),
    "image 64 x 64": grid(64, 64),
    "video 5 x 15 x 20": grid(5, 15, 20),
    "events to 120": uniform(120, 16, 16),
    "events to 600": uniform(600, 16, 16),
    "window near 400": grid(10, 10, 10) + 400,
    "cloud in 512": uniform(512, 512, 512),
}


@functools.cache
def case(name: str, cfg_type: str | None, backend: str, dtype: torch.dtype, device: str) -> Results:
    cfg = None if cfg_type is None else dict(type=cfg_type)
    return attention(cfg, Where(some(CASES[name]).double()), backend, dtype, device, heads=4, width=64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_positions_cost_no_digits_in_16_bit(name: str, backend: str, dtype: torch.dtype) -> None:
    """The output of PaPE errs at most 1.5 times as much as attention without positions does, gradients twice.

    FlexAttention's gradients are not bounded: its backward takes each row's sum of gradients from the output as rounded
    to 16 bits, which leaves few digits where a query attends to hardly any key but itself.
    """
    errors = []
    for encoding in (None, "PaPE"):
        exact = case(name, encoding, "dense", torch.float64, "cpu")
        ours = case(name, encoding, backend, dtype, DEVICE)
        assert all(bool(value.isfinite().all()) for value in ours.values())
        errors.append({what: ratio(value, exact[what]) for what, value in ours.items()})
    floor, pape = errors
    assert {"y", "q", "k", "v", "x", "wp", "wa", "wb"} == pape.keys()
    assert pape["y"] <= 1.5 * floor["y"]
    assert backend == "flex" or max(pape.values()) <= 2 * max(floor.values()), (floor, pape)


@pytest.mark.parametrize("name", CASES)
def test_positions_cost_no_digits_in_float32(name: str) -> None:
    exact = case(name, "PaPE", "dense", torch.float64, "cpu")
    for backend in ("auto", *BACKENDS):
        ours = case(name, "PaPE", backend, torch.float32, DEVICE)
        assert ratio(ours["y"], exact["y"]) <= 2e-5, backend


# ---------------------------------------------------------------------------------------------------- models


def model(name: str, **options: Any) -> Transformer:
    torch.manual_seed(0)
    encoding = dict(type=name) | CAMERAS.get(name, {})
    return Transformer(DIM, 2, HEADS, position_dims=2, encoding=encoding, **options)


def tokens(layout: str, cameras: bool = False) -> TokenSet:
    where = places(layout, cameras=cameras)
    features = torch.randn(*where.positions.shape[:2], DIM, generator=torch.Generator().manual_seed(1))
    return TokenSet(features.double(), where)


def learned(network: nn.Module, given: TokenSet) -> tuple[Tensor, Results]:
    real = torch.ones_like(given.features[..., 0], dtype=torch.bool) if given.where.valid is None else given.where.valid
    y = network(given).features[real]
    y.double().square().sum().backward()
    gradients = {name: p.grad.double().cpu() for name, p in network.named_parameters() if p.grad is not None}
    return y.detach().double().cpu(), gradients


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ANYWHERE)
def test_a_transformer_on_gpu_is_the_transformer_on_cpu(name: str, layout: str) -> None:
    there = tokens(layout, name in CAMERAS)
    exact, wanted = learned(model(name).double(), there)
    ours, got = learned(model(name).to(DEVICE), there.to(DEVICE, torch.float32))
    assert relative(ours, exact) <= 1e-4
    assert got.keys() == wanted.keys()
    for weight, gradient in got.items():
        assert ratio(gradient, wanted[weight]) <= 1e-2 or relative(gradient, wanted[weight]) <= 1e-4, weight


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ANYWHERE)
def test_autocast_learns(name: str, dtype: torch.dtype) -> None:
    there = tokens("padded", name in CAMERAS)
    exact, _ = learned(model(name).double(), there)
    with torch.autocast(DEVICE, dtype):
        ours, gradients = learned(model(name, qk_norm=False).to(DEVICE), there.to(DEVICE, torch.float32))
    assert relative(ours, exact) <= 0.1
    assert all(bool(gradient.isfinite().all()) for gradient in gradients.values())


@pytest.mark.parametrize(
    "name, layout",
    list(itertools.product(["AxialRoPE", "ALiBi", "PaPE", "RelativeBias", "PRoPE"], ["plain", "packed"])),
)
def test_compiled_as_one_graph_it_is_the_same(name: str, layout: str) -> None:
    there = tokens(layout, name in CAMERAS)
    exact, _ = learned(model(name).double(), there)
    network = model(name).to(DEVICE)
    ours, gradients = learned(torch.compile(network, fullgraph=True), there.to(DEVICE, torch.float32))  # type: ignore[arg-type]
    assert relative(ours, exact) <= 1e-4
    assert all(bool(gradient.isfinite().all()) for gradient in gradients.values())


@pytest.mark.parametrize("packed", [False, True])
def test_memory_holds_no_square_of_the_tokens(packed: bool) -> None:
    """A layer of PaPE forward and backward over 16384 tokens: one matrix of its logits would be 2 GiB."""
    torch.manual_seed(0)
    encoding = build_encoding(dict(type="PaPE", m=8), dim=DIM, heads=HEADS, position_dims=2, depth=1)
    layer = Attention(DIM, HEADS, encoding.layer(0, 1)).to(DEVICE)
    n = 2**14
    masks: dict[str, Any] = {"segment": torch.arange(n, device=DEVICE)[None] // 700} if packed else {}
    where = Where(torch.rand(1, n, 2, device=DEVICE) * 100, **masks)
    x = torch.randn(1, n, DIM, device=DEVICE, requires_grad=True)
    state = encoding.prepare(where)
    layer(x, where, state).sum().backward()  # compiles
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    layer(x, where, state).sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 2**28


def test_places_made_on_a_gpu_do_not_wait_for_it() -> None:
    positions, n = torch.rand(2, 64, 2, device=DEVICE), torch.arange(64, device=DEVICE).expand(2, 64)
    try:
        with warnings.catch_warnings():  # that the mode is a prototype
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode("error")
        where = Where(positions, valid=n < 60, placed=n > 0, segment=n // 16)
        where.runs()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert where.cut is None
    assert where.extent is None
    assert places("packed").to(DEVICE).cut is None


def test_farthest_points_and_neighbors_are_those_of_the_cpu() -> None:
    points = torch.rand(3, 2000, 3, generator=torch.Generator().manual_seed(0))
    valid = torch.arange(2000) < torch.tensor([[2000], [1500], [300]])
    here = farthest(points, 512, valid)
    there = farthest(points.to(DEVICE), 512, valid.to(DEVICE))
    assert torch.equal(here, there.cpu())
    index, distance = nearest(points, take(points, here), 16, valid)
    others = nearest(points.to(DEVICE), take(points.to(DEVICE), there), 16, valid.to(DEVICE))
    assert torch.equal(index, others[0].cpu())
    assert torch.equal(distance, others[1].cpu())
