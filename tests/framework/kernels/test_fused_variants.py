"""Which of the two designs of the fused kernels a bias has: a table, by what a GPU has."""

import pytest
import torch

from ndformer.framework.kernels import fused_variants
from ndformer.framework.kernels.fused_reference import Bias


def channels(kernel: str, dtype: torch.dtype, P: int, kind: str = "parabola", width: int = 64) -> int:
    bias = Bias(None, torch.zeros(1, P, 4), None, None, kind)
    return fused_variants.variant(kernel, torch.zeros(1, 1, 4, width, dtype=dtype), bias).channels


def test_parabolas_of_16_bits_ride_forward_and_to_keys_three_channels_a_monomial() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        assert [channels("forward", dtype, P) for P in range(1, 7)] == [16, 16, 32, 0, 0, 0]
        assert channels("forward", dtype, 3, "isotropic", 16) == 32
        assert channels("forward", dtype, 2, "distance") == 0
        assert [channels("backward_keys", dtype, P, width=16) for P in range(1, 7)] == [16, 16, 32, 0, 0, 0]
        assert channels("backward_queries", dtype, 2) == 0
    assert channels("forward", torch.float32, 2) == channels("backward_keys", torch.float32, 2, width=16) == 0


def test_wide_heads_in_two_dimensions_ride_to_keys_where_tensor_cores_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert channels("backward_keys", torch.float16, 2) == 0
    monkeypatch.setattr(fused_variants, "architecture", lambda _: 90)
    assert channels("backward_keys", torch.float16, 2) == 16


@pytest.mark.parametrize(
    "capability, like", [((8, 0), 80), ((8, 6), 120), ((8, 9), 120), ((9, 0), 90), ((10, 0), 90), ((12, 0), 120)]
)
def test_a_gpu_goes_by_the_units_it_has(
    capability: tuple[int, int], like: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert fused_variants.architecture(torch.device("cuda")) == like


def test_where_tensor_cores_are_few_the_bias_is_made_in_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_variants, "architecture", lambda _: 120)
    assert channels("forward", torch.float16, 2) == 0
