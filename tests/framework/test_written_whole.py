"""Whatever a program leaves is written under another name first and renamed: killed or on a full disk, the old file
stays. A write that does not is listed here with its reason."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ndformer.framework.answer import Answer
from ndformer.framework.answers.tables import write_table
from ndformer.framework.system import atomic

ROOT = Path(__file__).parents[2]
METHODS = {
    "write_text",
    "write_bytes",
    "savefig",
    "save",
    "savetxt",
    "savez",
    "savez_compressed",
    "save_file",
    "tofile",
}
METHODS |= {"to_csv", "imwrite", "mimsave", "save_all"}
OF_MODULES = {
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move"},
    "json": {"dump"},
    "pickle": {"dump"},
    "yaml": {"dump", "safe_dump"},
}
CALLS = re.compile(rf"\b(?:{'|'.join(METHODS.union({'open'}, *OF_MODULES.values()))})\(")

MEMORY = "into memory"
WHOLE = "its callee writes whole"
PICTURE = "into the file that pages.write makes whole"
FOLDER = "into a folder that gets its name once it is complete"
DATA = "a format of data, for samples and tests"
ALLOWED = {
    "ndformer/framework/answers/gallery.py": {"answers[i].save": WHOLE},
    "ndformer/framework/engine/training/console.py": {"open": "a log grows line by line"},
    "ndformer/framework/engine/training/owner.py": {
        "open": "a lock, created and never replaced; what is half written counts as an owner"
    },
    "ndformer/lab/html.py": {"png.save": MEMORY},
    "ndformer/lab/jobs.py": {"(job.folder / LOG).open": "a log that another process writes"},
    "ndformer/cli/shards.py": {"np.save": FOLDER, "value.save": MEMORY},
    "ndformer/framework/engine/training/sharded.py": {"open": FOLDER, "archive.save": FOLDER},
    "ndformer/framework/engine/training/hooks.py": {"torch.save": MEMORY},
    "ndformer/framework/engine/training/run_state.py": {"checkpoint.save": WHOLE},
    "ndformer/framework/engine/training/trainer.py": {"run_state.save": WHOLE},
    "ndformer/framework/engine/training/history.py": {"open": "a log grows line by line"},
    "ndformer/framework/foreign/mounts.py": {
        "copy.open": "a copy for a library that opens by name, removed at the end"
    },
    "ndformer/framework/system/archive.py": {"torch.save": "into a file that its caller makes whole"},
    "ndformer/framework/pictures/view.py": {"Image.fromarray(pixels).save": MEMORY},
    "ndformer/framework/system/processes.py": {"open": "os.devnull"},
    "ndformer/modalities/arc/formats/tasks.py": {"path.write_text": DATA},
    "ndformer/modalities/events/formats/aedat.py": {"path.open": DATA},
    "ndformer/modalities/events/formats/evt_dat.py": {"path.write_bytes": DATA},
    "ndformer/modalities/events/formats/nmnist_bin.py": {"path.write_bytes": DATA},
    "ndformer/studies/inspection.py": {"Painting(title, blocks, [''], heads, [patch], canvas).save": WHOLE},
    "ndformer/studies/pape/decomposition.py": {"figure.savefig": PICTURE},
    "ndformer/studies/pape/extrapolation.py": {"figure.savefig": PICTURE},
    "ndformer/studies/rectangles/maps.py": {"figure.savefig": PICTURE},
    "ndformer/studies/sincos2d/note.py": {"figure.savefig": PICTURE},
    "tools/benchmarks/gpu.py": {"open": "logs and figures grow line by line"},
    "tools/benchmarks/gpu_timing.py": {"open": "figures grow line by line"},
    "tools/benchmarks/loader.py": {"Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save": DATA},
    "tools/export.py": {"graph.save": WHOLE},
    "tools/extrapolate.py": {"extrapolate_table.save": WHOLE},
    "tools/probe_positions.py": {"probe_positions.save": WHOLE},
    "tools/show_attention.py": {"picture.save": WHOLE},
}


def is_write(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name in OF_MODULES.get(module, ()):
            return True
        case ast.Attribute(attr="open") | ast.Name(id="open"):
            words = [
                one.value for one in (*call.args, *(k.value for k in call.keywords)) if isinstance(one, ast.Constant)
            ]
            return any(isinstance(one, str) and set(one) <= set("wax+bt") and set(one) & set("wax+") for one in words)
        case ast.Attribute(attr=name):
            return name in METHODS
    return False


def writes(file: Path) -> Iterator[str]:
    """Writes outside of a block of atomic.replacing or atomic.temporary_folder."""
    text = file.read_text()
    if not CALLS.search(text):  # parsing is what takes the time
        return
    tree = ast.parse(text)
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.With)]
    blocks = [b for b in blocks if any(ast.unparse(item.context_expr).startswith("atomic.") for item in b.items)]
    whole = {node for block in blocks for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node not in whole and is_write(node):
            yield ast.unparse(node.func)


def test_every_write_is_whole_or_has_a_reason_and_each_reason_is_needed() -> None:
    """Issue 44.28."""
    files = [file for folder in ("ndformer", "tools") for file in sorted((ROOT / folder).rglob("*.py"))]
    files = [file for file in files if not {"stand_ins"} & set(file.parts)]
    found = {str(file.relative_to(ROOT)): set(writes(file)) for file in files if file.name != "atomic.py"}
    strange = {file: new for file, calls in found.items() if (new := calls - ALLOWED.get(file, {}).keys())}
    assert not strange, f"write them by ndformer.framework.system.atomic, or say here why not: {strange}"
    gone = {file: old for file, reasons in ALLOWED.items() if (old := reasons.keys() - found.get(file, set()))}
    assert not gone, f"not needed any more: {gone}"


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text('')", "path.open('w')", "open(path, mode='ab')", "figure.savefig(path)", "image.save(path)",
        "np.savez(path)", "shutil.copy('a', path)", "json.dump({}, file)",
    ],
)  # fmt: skip
def test_writes_are_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.py").write_text(f"def f(path):\n    {line}\n")
    assert len(list(writes(tmp_path / "a.py"))) == 1
    (tmp_path / "a.py").write_text(f"def f(path):\n    with atomic.replacing(path) as half:\n        {line}\n")
    assert not list(writes(tmp_path / "a.py"))
    (tmp_path / "a.py").write_text("def f(path):\n    path.open()\n    open(path, 'rb')\n    path.read_text()\n")
    assert not list(writes(tmp_path / "a.py"))


class Failing(Answer):
    def __init__(self, fails: bool) -> None:
        self.fails = fails

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        return [dict(path="a.png", score=Fails() if self.fails else 1.0)]


class Fails:
    def __str__(self) -> str:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_table_that_fails_half_way_leaves_the_one_before(tmp_path: Path, ending: str) -> None:
    """Issue 44.28."""
    path = tmp_path / f"predictions{ending}"
    write_table(path, [Failing(False)], [])
    before = path.read_text()
    with pytest.raises((OSError, TypeError)):
        write_table(path, [Failing(False)] * 10_000 + [Failing(True)], [])
    assert path.read_text() == before
    assert [*tmp_path.iterdir()] == [path]


def test_results_that_are_kept_are_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 44.28: reproduce --keep copied onto results.json, and was killed in the middle."""
    (tmp_path / "kept").mkdir()
    for name, text in (("kept/results.json", "old"), ("results.json", "new results")):
        (tmp_path / name).write_text(text)

    def cut(source: Path, path: Path) -> None:
        path.write_text(source.read_text()[:4])
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copyfile", cut)
    with pytest.raises(KeyboardInterrupt):
        atomic.copy(tmp_path / "results.json", tmp_path / "kept" / "results.json")
    assert (tmp_path / "kept" / "results.json").read_text() == "old"
