"""The fused kernels as machine code, compiled ahead of time for GPUs that are not here, and what stands in it.

triton brings ptxas and cuobjdump, so this needs neither a GPU nor CUDA. It says what a kernel is made of, and nothing
of how long it takes.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import triton  # pyright: ignore[reportMissingImports]
from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
from triton.compiler import ASTSource  # pyright: ignore[reportMissingImports]

from ndformer.framework.kernels import fused_triton
from ndformer.framework.kernels.fused_variants import Variant, padded

TOOLS = Path(triton.__path__[0]) / "backends" / "nvidia" / "bin"
FLOATS = ("forms", "places", "placed", "lse", "d_lse", "query_stats", "d_forms")
COUNTS = {"none": 0, "isotropic": 1, "distance": 1, "power": 2, "logarithm": 2, "gaussian": 1}


class Case(NamedTuple):
    kernel: str
    kind: str
    P: int
    width: int
    dtype: str  # as triton writes it: fp16, bf16, fp32
    arch: int
    unplaced: bool = True
    spans: bool = False


class Code(NamedTuple):
    registers: int
    shared: int  # bytes
    loops: list[list[str]]  # the innermost loops' instructions, by their operation
    all: list[str]


def compiled(case: Case, tiles: Variant) -> Code:
    options = dict(num_warps=tiles.warps, num_stages=tiles.stages, enable_fp_fusion=True)
    made = triton.compile(_source(case, tiles), target=GPUTarget("cuda", case.arch, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        usage, text = (_read(option, file.name) for option in ("-res-usage", "-sass"))
    found = re.search(r"REG:(\d+)", usage)
    assert found is not None, usage
    lines = [(int(at, 16), line) for at, line in re.findall(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?);", text, re.MULTILINE)]
    return Code(int(found[1]), made.metadata.shared, list(_loops(lines)), [_operation(line) for _, line in lines])


def per_32(code: Code, tiles: Variant) -> Counter[str]:
    """Instructions of a warp for each 32 logits, in the loop over whole tiles, which is the shortest with products."""
    loop = min((loop for loop in code.loops if any(map(is_product, loop))), key=len)
    return Counter(
        {name: count / (tiles.queries * tiles.keys / 32 / tiles.warps) for name, count in Counter(loop).items()}
    )


def is_product(operation: str) -> bool:
    """Of matrices, on tensor cores."""
    return operation.startswith(("HMMA", "HGMMA", "QGMMA", "OMMA", "UTCHMMA"))


def is_early(operation: str) -> bool:
    """A copy from memory that nobody waits for: a loop without is not a pipeline."""
    return operation.startswith(("LDGSTS", "UBLKCP", "UTMALDG"))


def is_spill(operation: str) -> bool:
    return operation.startswith(("LDL", "STL"))


def is_atomic(operation: str) -> bool:
    return operation.startswith(("RED", "ATOM")) and not operation.startswith("REDUX")


def _read(option: str, file: str) -> str:
    return subprocess.run([TOOLS / "cuobjdump", option, file], capture_output=True, text=True, check=True).stdout


def _operation(line: str) -> str:
    return re.sub(r"^@!?U?P\w+\s+", "", line).split()[0]


def _loops(lines: list[tuple[int, str]]) -> Iterator[list[str]]:
    for at, line in lines:
        target = re.search(r"\bBRA\b.*?0x([0-9a-f]+)", line)
        if target and int(target[1], 16) < at:
            yield [_operation(other) for where, other in lines if int(target[1], 16) <= where <= at]


def _source(case: Case, tiles: Variant) -> Any:
    """As fused_launch.py calls it, with all tensors aligned, and steps of q, k and v in whole 16s."""
    kernel = getattr(fused_triton, case.kernel)
    P = 0 if case.kind == "none" else case.P
    count = P * (P + 1) // 2 + P if case.kind == "parabola" else COUNTS[case.kind]
    unplaced = case.unplaced and P > 0
    given = dict(forms=P > 0, places=P > 0, placed=unplaced, spans=case.spans)
    constants: dict[str, Any] = dict(
        KIND=case.kind,
        P=P,
        COUNT=count,
        UNPLACED=unplaced,
        SPANS=case.spans,
        WIDTH=case.width,
        D=padded(4 if case.dtype == "fp32" else 2, case.width, P),
        PRECISION="tf32x3" if case.dtype == "fp32" else "tf32",
        QUERIES=tiles.queries,
        KEYS=tiles.keys,
    )
    given["residual"] = P > 2 and case.dtype != "fp32"
    constants |= {name: None for name, here in given.items() if not here}
    signature: dict[str, Any] = {}
    fixed: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    aligned = [["tt.divisibility", 16]]
    for at, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name], fixed[at,] = "constexpr", constants[name]
        elif name == "scale":
            signature[name] = "fp32"
        elif name == "forms_step":
            signature[name], fixed[at, 3] = ("i32", "i32", "i32", "constexpr"), 1
        elif name == "places_step":
            signature[name] = ("i32", "i32")
            attributes |= {(at, axis): aligned for axis in range(2)}
        elif name in ("H", "N", "placed_step", "spans_step"):
            signature[name] = "i32"
        elif name.endswith("_step"):
            signature[name] = ("i32",) * 3
            attributes |= {(at, axis): aligned for axis in range(3)}
        else:
            known = {"spans": "i32"} | dict.fromkeys(FLOATS, "fp32")
            signature[name] = f"*{known.get(name, case.dtype)}"
            attributes[at,] = aligned
    return ASTSource(fn=kernel, signature=signature, constexprs=fixed, attrs=attributes)
