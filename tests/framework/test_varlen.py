"""Packed images without a bias go to torch's varlen_attn, which computes each sample by itself.

It needs a GPU (tests/gpu/test_gpu.py). Here a slow implementation stands for torch's, and the CPU for a GPU.
"""

import math

import pytest
import torch
import torch.nn.attention.varlen
from torch import Tensor

from ndformer.framework.bias.pointwise import DistanceBias
from ndformer.framework.kernels import attend, varlen
from ndformer.framework.kernels.choose import choose
from ndformer.framework.tokens import Where
from ndformer.modalities.image.adapter import ImagePatches
from tests.framework.helpers import relative

SIZES = [(1, 1), (3, 2), (2, 5), (4, 4)]
HEADS, WIDTH = 2, 8


def slow(
    q: Tensor, k: Tensor, v: Tensor, first: Tensor, keys: Tensor, longest: int, most: int, *, scale: float
) -> Tensor:
    assert first.dtype == keys.dtype == torch.int32
    assert torch.equal(first, keys)
    assert longest == most == int(first.diff().max())
    samples = []
    for lo, hi in zip(first[:-1].tolist(), first[1:].tolist()):
        logits = torch.einsum("qhc,khc->hqk", q[lo:hi].double(), k[lo:hi].double()) * scale
        samples.append(torch.einsum("hqk,khc->qhc", logits.softmax(-1), v[lo:hi].double()))
    return torch.cat(samples).to(q.dtype)


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(varlen, "on_gpu", lambda q: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.nn.attention.varlen, "varlen_attn", slow)


def packed(class_token: bool, registers: int) -> Where:
    adapter = ImagePatches(8, patch=2, class_token=class_token, registers=registers)
    return adapter([torch.zeros(3, 2 * height, 2 * width) for height, width in SIZES]).where


def qkv(where: Where, dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    return [torch.randn(1, HEADS, where.positions.shape[1], WIDTH).to(dtype).requires_grad_() for _ in range(3)]


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("class_token, registers", [(False, 0), (True, 0), (True, 3)])
def test_each_packed_image_attends_to_itself_alone(class_token: bool, registers: int) -> None:
    where = packed(class_token, registers)
    q, k, v = qkv(where)
    assert choose(q, k, v, where, None).name == "varlen"
    out = attend(q, k, v, where, None)
    exact = attend(q.detach().double(), k.detach().double(), v.detach().double(), where, None, backend="dense")
    assert out.dtype == torch.bfloat16
    assert relative(out.detach(), exact) <= 2e-2
    out.sum().backward()
    assert all(t.grad is not None for t in (q, k, v))
    front = class_token + registers
    bounds, longest = varlen.packed_samples(where)
    assert bounds.diff().tolist() == [math.prod(size) + front for size in SIZES]
    assert longest == 16 + front


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("case", ["bias", "float32", "lengths unknown", "width", "old GPU", "deterministic"])
def test_other_calls_go_to_other_backends(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = packed(True, 0)
    q, k, v = qkv(where, torch.float32 if case == "float32" else torch.bfloat16)
    bias = DistanceBias(torch.ones(HEADS), where.positions) if case == "bias" else None
    if case == "lengths unknown":
        where = Where(where.positions, segment=where.segment)
    if case == "width":
        q, k, v = (t[..., :5] for t in (q, k, v))
    if case == "old GPU":
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    if case == "deterministic":
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert choose(q, k, v, where, bias).name != "varlen"
    with pytest.raises(ValueError, match=r"backend 'varlen' is for packed images .* take 'auto'"):
        attend(q, k, v, where, bias, backend="varlen")


def test_on_a_cpu_it_is_refused() -> None:
    where = packed(True, 0)
    q, k, v = qkv(where)
    with pytest.raises(ValueError, match="on a GPU"):
        attend(q, k, v, where, None, backend="varlen")
