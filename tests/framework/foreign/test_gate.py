"""Files are opened and unpacked in ndformer/framework/foreign only, or here with a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import ROOT

GATE = ROOT / "ndformer" / "framework" / "foreign"
NAMES = {"open", "safe_open", "load_file", "load_model", "Unpickler", "FileIO", "VideoReader", "VideoCapture", "imread"}
NAMES |= {"TextIOWrapper", "BufferedReader", "load_scene", "load_mesh", "InferenceSession", "LasZipDecompressor"}
NAMES |= {"getline"}
METHODS = {"open", "read_text", "read_bytes", "open_memmap"}  # of anything: Path.open, Image.open, os.open, av.open ...
OF_MODULES = {  # by the last part of a module's name: jit of torch.jit
    "np": {"load", "fromfile", "memmap", "loadtxt", "genfromtxt"},
    "numpy": {"load", "fromfile", "memmap", "loadtxt", "genfromtxt"},
    "torch": {"load", "from_file"},
    "jit": {"load"},
    "export": {"load"},
    "serialization": {"load"},
    "onnx": {"load"},
    "trimesh": {"load"},
    "laspy": {"read"},
    "mmap": {"mmap"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "unpack_archive"},
    "pickle": {"load", "loads"},
    "json": {"load", "loads"},
    "tomllib": {"load", "loads"},
    "yaml": {"load", "safe_load", "full_load", "unsafe_load", "parse"},
    "mmengine": {"load"},
    "csv": {"reader", "DictReader"},
    "gzip": {"GzipFile", "decompress"},
    "zlib": {"decompress", "decompressobj"},
    "bz2": {"decompress", "BZ2File"},
    "lzma": {"decompress", "LZMAFile"},
    "zipfile": {"ZipFile"},
    "tarfile": {"TarFile"},
    "h5py": {"File"},
    "aedat": {"Decoder"},
    "ET": {"parse", "fromstring", "iterparse"},
    "ElementTree": {"parse", "fromstring", "iterparse"},
    "scipy": {"loadmat"},
    "io": {"loadmat"},
    "fileinput": {"input"},
    "runpy": {"run_path"},
    "util": {"spec_from_file_location"},
    "sqlite3": {"connect"},
    "archive": {"read"},
}

OWN = "what ndformer itself wrote or ships, and nobody else"
WRITES = "it writes"
SNIFFED = "after a look at what container it is, in a process of its own"
CONTENT = "bytes that the gate has read"
LINES = "lines that the gate has read"
CHECKPOINT = "the reader of checkpoints, with a digest and bounds of its own"
RUN = "a file of a run, whose reader checks it"
ADAPTER = "the method of adapters and datasets, which reads by the gate"

ALLOWED = {
    "ndformer/__main__.py": {"path.read_text": OWN, "programs[name].read_text": OWN, "runpy.run_path": OWN},
    "ndformer/framework/answers/tables.py": {"half.open": WRITES},
    "ndformer/framework/system/atomic.py": {"shutil.copyfile": OWN, "os.open": "a folder, to be synced"},
    "ndformer/framework/system/archive.py": {
        "path.open": CHECKPOINT,
        "zipfile.ZipFile": CHECKPOINT,
        "torch.load": CHECKPOINT,
    },
    "ndformer/framework/kernels/narrow_numba.py": {"Path(__file__).read_bytes": OWN},
    "ndformer/contract/parts.py": {"pickle.loads": "what was pickled a line before"},
    "ndformer/framework/data/memory.py": {"pickle.loads": "what this process has pickled and kept in its memory"},
    "ndformer/framework/data/folders.py": {"self.open": ADAPTER},
    "ndformer/framework/data/shards/dataset.py": {"json.loads": "what was written a word before"},
    "ndformer/cli/shards.py": {"half.open": WRITES, "json.loads": OWN, "part.read_text": OWN},
    "ndformer/framework/engine/config/inherit.py": {"path.read_text": "configs are code, which is said"},
    "ndformer/cli/naming.py": {"util.spec_from_file_location": "code that the user named, which is said"},
    "ndformer/framework/engine/inputs.py": {"self.adapters[name].open": ADAPTER},
    "ndformer/lab/jobs.py": {
        "(job.folder / LOG).open": WRITES,
        "os.open": "a lock, of which nothing is read",
        "pickle.loads": "what the parent process has pickled, through a pipe",
    },
    "ndformer/studies/__init__.py": {"file.read_text": OWN},
    "ndformer/framework/engine/training/checkpoint.py": {
        "open": WRITES,
        "path.read_bytes": RUN,
        "archive.read": "a regular file",
    },
    "ndformer/framework/engine/training/agreement.py": {"path.read_bytes": OWN},
    "ndformer/framework/engine/training/console.py": {"open": WRITES, "os.open": WRITES},
    "ndformer/framework/engine/training/sharded.py": {"open": WRITES, "archive.read": CHECKPOINT},
    "ndformer/framework/engine/training/history.py": {"open": WRITES},
    "ndformer/framework/engine/training/watchdog.py": {"json.loads": "messages of processes of the same run"},
    "ndformer/framework/engine/training/exported.py": {"safetensors.safe_open": CHECKPOINT},
    "ndformer/framework/engine/training/owner.py": {
        "Path(f'/proc/{number}/stat').read_text": "the system's own",
        "boot.read_text": "the system's own",
        "moved.read_text": RUN,
        "open": WRITES,
        "os.open": "a folder, to be locked",
    },
    "ndformer/lab/explorer/page.py": {"folder.joinpath(name).read_text": OWN},
    "ndformer/framework/graph.py": {"export.load": OWN, "onnxruntime.InferenceSession": OWN},
    "ndformer/framework/system/lock.py": {"os.open": "a folder, to be locked"},
    "ndformer/framework/system/pipes.py": {"os.open": "os.devnull"},
    "ndformer/framework/system/processes.py": {"open": "os.devnull"},
    "ndformer/modalities/driving/formats/index.py": {"half.open": WRITES},
    "ndformer/modalities/events/datasets/gen1/index.py": {"half.open": WRITES},
    "ndformer/modalities/events/datasets/gesture.py": {"csv.reader": LINES},
    "ndformer/modalities/events/formats/aedat.py": {"path.open": WRITES},
    "ndformer/modalities/events/formats/aedat4.py": {
        "aedat.Decoder": "a regular file, whose packets were looked at",
        "os.open": "os.devnull",
    },
    "ndformer/modalities/events/formats/text.py": {"numpy.loadtxt": LINES},
    "ndformer/modalities/image/datasets/imagenet.py": {"csv.DictReader": LINES},
    "ndformer/modalities/molecules/datasets/folder.py": {"csv.reader": LINES},
    "ndformer/modalities/molecules/datasets/gdb9.py": {"csv.DictReader": LINES},
    "ndformer/modalities/molecules/datasets/qm9_pack.py": {"csv.DictReader": LINES},
    "ndformer/modalities/pointcloud/datasets/cache.py": {"half.open": WRITES},
    "ndformer/modalities/pointcloud/datasets/paired.py": {"csv.DictReader": LINES},
    "ndformer/modalities/pointcloud/datasets/scannet_raw.py": {"csv.DictReader": LINES},
    "ndformer/modalities/pointcloud/formats/las.py": {"lazrs.LasZipDecompressor": CONTENT},
    "ndformer/modalities/pointcloud/formats/models.py": {"trimesh.load_scene": CONTENT},
    "ndformer/modalities/pointcloud/formats/meshes.py": {"numpy.loadtxt": LINES},
    "ndformer/modalities/pointcloud/formats/pcd.py": {"numpy.loadtxt": LINES},
    "ndformer/modalities/pointcloud/formats/text.py": {"numpy.loadtxt": LINES},
    "ndformer/modalities/pointcloud/voting.py": {
        "checkpoint.read_bytes": "a checkpoint that was loaded before",
        "half.open": WRITES,
    },
    "ndformer/modalities/video/formats/backends.py": {"av.open": SNIFFED, "decord.VideoReader": SNIFFED},
    "ndformer/modalities/video/formats/child.py": {"json.loads": "a line of the process that started it"},
    "ndformer/modalities/video/formats/process.py": {"json.loads": "a line of the process that it started"},
}


def openings(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the text and node of each call that opens a file, also under an imported name."""
    names, modules = {name: name for name in NAMES}, {module: module for module in OF_MODULES}
    for node in ast.walk(tree):
        for one in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            module, called = (getattr(node, "module", None) or "").rpartition(".")[2], one.asname or one.name
            if one.name in NAMES or one.name in OF_MODULES.get(module, ()):
                names[called] = f"{module}.{one.name}"
            elif one.name.rpartition(".")[2] in OF_MODULES:
                modules[called] = one.name.rpartition(".")[2]
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in names:
                yield names[name], node
            case ast.Attribute(value=ast.Name(id=module) | ast.Attribute(attr=module), attr=name) if (
                name in OF_MODULES.get(modules.get(module, ""), ())
            ):
                yield f"{modules[module]}.{name}", node
            case ast.Attribute(attr=name) if name in METHODS | NAMES:
                yield ast.unparse(node), node


def opening(file: Path) -> Iterator[str]:
    return (name for name, _ in openings(ast.parse(file.read_text())))


def unguarded(file: Path) -> Iterator[str]:
    """Yield calls that open `path` without regular(path)."""
    tree = ast.parse(file.read_text())
    nodes = {node for _, node in openings(tree)}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not nodes & {*ast.walk(call)}:
            continue
        if any(isinstance(one, ast.Name) and one.id == "path" for one in call.args):
            yield f"{file.name}, line {call.lineno}: {ast.unparse(call)}"


def test_every_opening_of_a_file_is_of_the_gate_or_has_a_reason_and_each_reason_is_needed():
    files = [file for folder in ("ndformer", "tools") for file in sorted((ROOT / folder).rglob("*.py"))]
    files = [file for file in files if not {"stand_ins", "benchmarks"} & set(file.parts) and GATE not in file.parents]
    found = {file.relative_to(ROOT).as_posix(): set(opening(file)) for file in files}
    strange = {file: new for file, calls in found.items() if (new := calls - ALLOWED.get(file, {}).keys())}
    assert not strange, f"open them by ndformer.framework.foreign, or say here why not: {strange}"
    gone = {file: old for file, calls in ALLOWED.items() if (old := calls.keys() - found.get(file, set()))}
    assert not gone, f"not needed any more: {gone}"


@pytest.mark.parametrize("file", sorted(GATE.glob("*.py")), ids=lambda file: file.stem)
def test_the_gate_itself_opens_regular_files_alone(file):
    assert not list(unguarded(file))


@pytest.mark.parametrize(
    "line", ["np.load(path)", "(load_file if path.suffix else archive.read)(path)[0]", "open(path)"]
)
def test_openings_of_any_path_are_seen(tmp_path, line):
    (tmp_path / "a.py").write_text(f"def f(path):\n    return {line}\n")
    assert len(list(unguarded(tmp_path / "a.py"))) == 1
    (tmp_path / "a.py").write_text(f"def f(path):\n    return {line.replace('(path)', '(regular(path))')}\n")
    assert not list(unguarded(tmp_path / "a.py"))


@pytest.mark.parametrize(
    "line",
    [
        "from json import loads\nloads(path)", "from torch import load as get\nget(path)",
        "import numpy as n\nn.load(path)",
        "import torch\ntorch.jit.load(path)", "from ndformer.framework import archive as a\na.read(path)",
        "import shutil\nshutil.copyfile(path, 'b')", "from shutil import copy2\ncopy2(path, 'b')",
        "open(path)", "path.open()", "os.open(path, 0)", "Image.open(path)", "path.read_text()", "np.load(path)",
        "np.memmap(path)", "gzip.open(path)", "zipfile.ZipFile(path)", "tarfile.open(path)", "h5py.File(path)",
        "pickle.loads(content)", "torch.load(path)", "json.load(file)", "yaml.safe_load(file)", "av.open(path)",
        "scipy.loadmat(path)", "decord.VideoReader(path)", "cv2.imread(path)", "cv2.VideoCapture(path)",
        "ElementTree.parse(path)", "csv.reader(file)", "zlib.decompress(content)", "safe_open(path)", "io.FileIO(path)",
    ],
)  # fmt: skip
def test_openings_are_seen_however_they_are_imported(tmp_path, line):
    (tmp_path / "a.py").write_text(line)
    assert len(list(opening(tmp_path / "a.py"))) == 1
