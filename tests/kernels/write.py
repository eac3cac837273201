"""Instructions of the fused kernels for each 32 logits, into docs/benchmarks/kernels.json and .png.

python -m tests.kernels.write      in the environment that `make kernels` makes
"""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import triton  # pyright: ignore[reportMissingImports]

from ndformer.framework.kernels.fused_variants import table_variant
from tests.kernels.ahead import Case, compiled, is_spill, per_32

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
KERNELS, ARCHS = ("forward", "backward_queries", "backward_keys"), (80, 90, 120)
BIASES = [("none", 2), ("isotropic", 2), ("distance", 2), ("parabola", 2), ("none", 3), ("parabola", 3)]
WIDTHS = {2: 64, 3: 16}  # images with ViT's heads, points with those of PTv3
MEANT = "compiled ahead of time; nothing was measured on a GPU"


def counted(kernel: str, kind: str, P: int, arch: int) -> dict[str, Any]:
    case = Case(kernel, kind, P, WIDTHS[P], "fp16", arch)
    tiles = table_variant(kernel, 2, case.width, 0 if kind == "none" else P, False)
    code = compiled(case, tiles)
    operations = per_32(code, tiles)
    return dict(
        kernel=kernel,
        bias=kind,
        dimensions=P,
        channels=case.width,
        arch=f"sm_{arch}",
        tiles=tiles._asdict(),
        registers=code.registers,
        shared=code.shared,
        spills_in_loops=sum(is_spill(operation) for loop in code.loops for operation in loop),
        instructions=round(operations.total(), 2),
        by_operation={name: round(count, 2) for name, count in _short(operations).most_common(10)},
    )


def _short(operations: Any) -> Any:
    found = type(operations)()
    for name, count in operations.items():
        found[name.split(".")[0]] += count
    return found


def main() -> None:
    rows = [counted(kernel, kind, P, arch) for arch in ARCHS for kernel in KERNELS for kind, P in BIASES]
    plain = {(row["kernel"], row["dimensions"], row["arch"]): row for row in rows if row["bias"] == "none"}
    for row in rows:
        none = plain[row["kernel"], row["dimensions"], row["arch"]]
        row["instructions_over_none"] = round(row["instructions"] / none["instructions"], 2)
    head = dict(what=MEANT, triton=triton.__version__, of="instructions of a warp for 32 logits, fp16, a class token")
    (FOLDER / "kernels.json").write_text(json.dumps(head | dict(rows=rows), indent=1) + "\n")
    draw(rows)


def draw(rows: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), sharey=True, layout="constrained")
    for ax, kernel in zip(axes, KERNELS):
        mine = [row for row in rows if row["kernel"] == kernel]
        names = list(dict.fromkeys(map(_name, mine)))
        for at, arch in enumerate(ARCHS):
            here = {_name(row): row["instructions"] for row in mine if row["arch"] == f"sm_{arch}"}
            ax.bar(
                np.arange(len(names)) + (at - 1) * 0.27,
                [here.get(name, np.nan) for name in names],
                0.25,
                label=f"sm_{arch}",
            )
        ax.set_xticks(range(len(names)), names, fontsize=6)
        ax.set_title(kernel.replace("_", ", of "))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("instructions for 32 logits\n(compiled, not run)")
    axes[0].legend(frameon=False)
    figure.savefig(FOLDER / "kernels.png", dpi=130)


def _name(row: dict[str, Any]) -> str:
    return f"{row['bias']}\n{row['dimensions']}-D, h={row['channels']}"


if __name__ == "__main__":
    main()
