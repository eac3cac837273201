"""Run a program of tools/ by name, also from an installed package.

ndformer                                 lists the programs
ndformer train modelnet40_pape --sample  the same as `python tools/train.py configs/modelnet40_pape.py --sample`
"""

import ast
import os
import runpy
import sys
from pathlib import Path

import ndformer
from ndformer.framework.errors import nearest
from ndformer.framework.system.pipes import exit_on_closed_pipe

TOOLS = Path(__file__).parent / "tools"
GROUPS = {
    "Train and use": "train test predict report print_config",
    "Look": "explore show_attention show_tokens show_encoding browse_dataset",
    "Data": "peek check_data make_sample pack_shards prepare_gen1 prepare_nuscenes prepare_scannet",
    "Compare and study": "compare rank reproduce extrapolate probe_positions check_coverage vote eval",
    "Share and extend": "export convert_checkpoint check_encoding check_modality memory",
}


# Threads of OpenMP that wait for each other must sleep soon: beside other work, training takes 3 times as long while
# they spin. They are read when torch is imported; libgomp reads the second, other runtimes the first.
WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}


def main() -> None:
    if not os.environ.keys() & WAITING.keys():
        os.environ.update(WAITING)
    files = [path for path in sorted(TOOLS.rglob("*.py")) if "__main__" in path.read_text(encoding="utf-8")]
    programs = {path.relative_to(TOOLS).with_suffix("").as_posix(): path for path in files}  # without helper modules
    name, *arguments = sys.argv[1:] or ["--help"]
    if name == "--version":
        print(f"ndformer {ndformer.__version__}")
        return
    if name in ("-h", "--help"):
        with exit_on_closed_pipe():
            print("Usage: ndformer PROGRAM ...    ndformer PROGRAM --help lists its options")
            benchmarks = " ".join(name for name in programs if "/" in name)
            for title, names in [*GROUPS.items(), ("Benchmarks", benchmarks)]:
                print(f"\n{title}")
                for name in names.split():
                    text = ast.get_docstring(ast.parse(programs[name].read_text(encoding="utf-8"))) or ""
                    print(f"  {name:22} {text.partition(chr(10))[0]}")
        return
    if name not in programs:
        suggestion = nearest(name, programs)
        help_text = "`ndformer` lists the programs" if suggestion.endswith("?") else f"Programs: {', '.join(programs)}"
        sys.exit(f"ndformer: no program '{name}'{suggestion} {help_text}")
    sys.argv = [str(programs[name]), *arguments]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
