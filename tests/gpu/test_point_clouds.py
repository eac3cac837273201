"""Point Transformer V3 on a GPU: what the CPU computes, whichever convolution; and what encodings cost there."""

from typing import Any, Literal

import pytest
import torch

from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.sparse import Sites, SubMConv3d
from ndformer.framework.sparse.spconv import build
from ndformer.framework.tokens import TokenSet, Where
from tests.framework.helpers import ANYWHERE
from tools.benchmarks import points as benchmark_points

DEVICE = "cuda"
SMALL: dict[str, Any] = dict(
    enc_depths=(1, 2, 1),
    enc_channels=(16, 32, 32),
    enc_heads=(1, 2, 2),
    dec_depths=(1, 1),
    dec_channels=(16, 32),
    dec_heads=(1, 2),
    window=64,
)
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*attribute of a Tensor that is not a leaf.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:backend 'flex' must compile.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*TensorFloat32.*"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch._inductor"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of spconv
]


@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize("cpe", ["xcpe", "none"])
def test_the_gpu_computes_what_the_cpu_does(name: str, cpe: Literal["xcpe", "none"]) -> None:
    torch.manual_seed(0)
    model = PTv3(encoding=dict(type=name), cpe=cpe, **SMALL).eval()
    r = benchmark_points.surface(1500)
    tokens = TokenSet(torch.randn(1, len(r), 6), Where(r[None]))
    with torch.no_grad():
        expected = model.double()(tokens.to(dtype=torch.float64)).features
        found = model.float().to(DEVICE)(tokens.to(DEVICE)).features
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ANYWHERE)
def test_it_learns_in_16_bit(name: str, dtype: torch.dtype) -> None:
    """As the recipe of ScanNet does (fp16): near float32, and every gradient is finite."""
    r = benchmark_points.surface(1500)
    x = torch.randn(1, len(r), 6, generator=torch.Generator().manual_seed(1))
    found = []
    for enabled in (False, True):
        torch.manual_seed(0)
        model = PTv3(encoding=dict(type=name), cpe="none", shuffle="never", drop_path=0.0, **SMALL).to(DEVICE)
        with torch.autocast(DEVICE, dtype, enabled=enabled):
            y = model(TokenSet(x, Where(r[None])).to(DEVICE)).features
        y.float().square().mean().backward()
        found.append((y.detach().float(), [p.grad for p in model.parameters() if p.grad is not None]))
    (exact, wanted), (ours, got) = found
    assert (ours - exact).norm() <= 0.05 * exact.norm()
    assert len(got) == len(wanted)
    assert all(bool(gradient.isfinite().all()) for gradient in got)


@pytest.mark.parametrize("kernel", [3, 5])
def test_spconv_and_torch_agree(kernel: int) -> None:
    if build()[0] is None:
        pytest.skip(build()[1])
    torch.manual_seed(0)
    grid = torch.unique(torch.randint(0, 12, (900, 3)), dim=0).to(DEVICE)
    sites = Sites(grid, torch.zeros(len(grid), dtype=torch.int64, device=DEVICE))
    x, up = torch.randn(len(grid), 16, device=DEVICE), torch.randn(len(grid), 24, device=DEVICE)
    layer = SubMConv3d(16, 24, kernel).to(DEVICE)
    found = []
    for backend in ("torch", "spconv"):
        layer.backend = backend
        own = x.clone().requires_grad_()
        y = layer(own, sites)
        found.append((y, *torch.autograd.grad((y * up).sum(), [own, layer.weight])))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)  # spconv multiplies in TF32
