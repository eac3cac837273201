"""The fused kernels, compiled for GPUs that are not here: nothing spills in a loop, and no atomics (`make kernels`)."""

import pytest

pytest.importorskip("triton", reason="make kernels installs triton")

from ndformer.framework.kernels.fused_variants import RIDING, TABLE, Variant, chosen
from tests.kernels.ahead import Case, Code, compiled, is_atomic, is_early, is_product, is_spill, per_32

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
    + [("cone", 2), ("parabola", 1), ("parabola", 3)]
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
RODE = {
    Case(kernel, "parabola", P, width, "fp16", arch, spans=masked): tiles
    for (kernel, arch, P, width), both in RIDING.items()
    for masked, tiles in zip((False, True), both)
    if tiles and (not masked or width == 64)  # the widest have the fewest registers left
}
RODE |= {
    Case(kernel, "isotropic", P, 64, "bf16", arch): RIDING[kernel, arch, P, 64][0]
    for kernel, arch in (("forward", 80), ("forward", 90), ("backward_keys", 90))
    for P in (2, 3)
}


def looked_at(case: Case, tiles: Variant, spills: int = 0) -> Code:
    code = compiled(case, tiles)
    assert sum(map(is_spill, (operation for loop in code.loops for operation in loop))) <= spills
    assert not any(map(is_atomic, code.all))
    assert code.shared <= SHARED[case.arch]
    assert code.registers <= 255
    assert any(is_product(operation) for loop in code.loops for operation in loop)
    return code


def in_registers(case: Case) -> Variant:
    masked = case.spans or case.kind == "cone"
    return chosen(case.kernel, 4 if case.dtype == "fp32" else 2, case.width, case.P, masked)


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_no_variant_of_the_table_spills_in_a_loop(case: Case) -> None:
    looked_at(case, in_registers(case))


@pytest.mark.parametrize("case", OTHERS + WIDE, ids=str)
def test_nor_does_another_bias_or_a_mask(case: Case) -> None:
    looked_at(case, in_registers(case))


@pytest.mark.parametrize("case", RODE, ids=str)
def test_nor_do_parabolas_on_the_tensor_cores(case: Case) -> None:
    """The forward tiles of sm_90 spill a little, and are the fastest that were measured on an H100 all the same."""
    looked_at(case, RODE[case], spills=48 if case.kernel == "forward" and case.arch == 90 else 0)


@pytest.mark.parametrize("arch", SHARED)
def test_parabolas_are_at_most_twice_the_instructions_of_no_bias_and_on_tensor_cores_1_15(arch: int) -> None:
    plain, registers, riding = (
        chosen("forward", 2, 64, 0, False),
        chosen("forward", 2, 64, 2, False),
        RIDING["forward", 80, 2, 64][0],
    )
    none = per_32(compiled(Case("forward", "none", 0, 64, "fp16", arch), plain), plain)
    assert any(map(is_early, none))
    for tiles, most in ((registers, 2.0), (riding, 1.15)):
        found = per_32(compiled(Case("forward", "parabola", 2, 64, "fp16", arch), tiles), tiles)
        assert any(map(is_early, found))
        assert found.total() <= most * none.total()
