"""The fused kernels, compiled for GPUs that are not here: nothing spills in a loop, and no atomics (`make kernels`)."""

import pytest

pytest.importorskip("triton", reason="make kernels installs triton")

from ndformer.framework.kernels.fused_variants import TABLE, Variant, table_variant
from tests.kernels.ahead import Case, compiled, is_atomic, is_early, is_product, is_spill, per_32

SHARED = {80: 166912, 90: 232448, 120: 101376}  # bytes that a program may have
DTYPES = {2: "fp16", 4: "fp32"}
KERNELS = ("forward", "backward_queries", "backward_keys")
EVERY = [
    Case(kernel, "parabola", P, width, DTYPES[size], arch)
    for arch in SHARED
    for P in range(2, 7)
    for kernel, size, width in TABLE
]
OTHERS = [
    Case(kernel, kind, P, 64, "bf16", arch, spans=True)
    for arch in SHARED
    for kernel in KERNELS
    for kind, P in [("none", 0), ("isotropic", 3), ("distance", 2), ("power", 3), ("logarithm", 3), ("gaussian", 2)]
    + [("parabola", 1), ("parabola", 3)]
]
WIDE = [
    Case(kernel, "parabola", P, width, dtype, arch, spans=spans)
    for arch in SHARED
    for kernel in KERNELS
    for P, width, dtype, spans in (
        *((2, width, "bf16", spans) for width, spans in ((80, False), (96, True), (128, True))),
        *((P, width, "fp32", True) for P, width in ((2, 80), (3, 96), (4, 128), (5, 96), (6, 128), (6, 16))),
    )
]


def check(case: Case) -> None:
    code = compiled(case, tiles_of(case))
    assert not any(map(is_spill, (operation for loop in code.loops for operation in loop)))
    assert not any(map(is_atomic, code.all))
    assert code.shared <= SHARED[case.arch]
    assert code.registers <= 255
    assert any(is_product(operation) for loop in code.loops for operation in loop)


def tiles_of(case: Case) -> Variant:
    return table_variant(case.kernel, 4 if case.dtype == "fp32" else 2, case.width, case.P, case.spans)


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_no_variant_of_the_table_spills_in_a_loop(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", OTHERS + WIDE, ids=str)
def test_nor_does_another_bias_or_a_mask(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("arch", SHARED)
def test_parabolas_are_at_most_twice_the_instructions_of_no_bias(arch: int) -> None:
    plain, tiles = table_variant("forward", 2, 64, 0, False), table_variant("forward", 2, 64, 2, False)
    none = per_32(compiled(Case("forward", "none", 0, 64, "fp16", arch), plain), plain)
    found = per_32(compiled(Case("forward", "parabola", 2, 64, "fp16", arch), tiles), tiles)
    assert any(map(is_early, none))
    assert any(map(is_early, found))
    assert found.total() <= 2.0 * none.total()
