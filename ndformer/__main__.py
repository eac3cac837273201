"""The programs of tools/, wherever ndformer is installed.

ndformer                                        which there are
ndformer train modelnet40_pape --sample         as `python tools/train.py configs/modelnet40_pape.py --sample`
"""

import ast
import runpy
import sys
from pathlib import Path

import ndformer
from ndformer.framework.errors import nearest
from ndformer.framework.pipes import ending_with_their_reader

TOOLS = Path(__file__).parent / "tools"


def main() -> None:
    programs = {path.relative_to(TOOLS).with_suffix("").as_posix(): path for path in sorted(TOOLS.rglob("*.py"))}
    name, *arguments = sys.argv[1:] or ["--help"]
    if name == "--version":
        print(f"ndformer {ndformer.__version__}")
        return
    if name in ("-h", "--help"):
        with ending_with_their_reader():
            print("ndformer PROGRAM ...      --help after one tells more; configs that ship go by their names\n")
            for name, path in programs.items():
                says = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
                print(f"  {name:22} {says.partition(chr(10))[0]}")
        return
    if name not in programs:
        sys.exit(f"ndformer: no program '{name}'{nearest(name, programs)} There are: {', '.join(programs)}")
    sys.argv = [str(programs[name]), *arguments]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
