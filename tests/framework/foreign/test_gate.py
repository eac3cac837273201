"""Whatever opens or unpacks a file goes through ndformer/framework/foreign, or stands here with the reason why not."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GATE = ROOT / "ndformer" / "framework" / "foreign"
NAMES = {"open", "safe_open", "load_file", "Unpickler", "FileIO", "VideoReader", "VideoCapture", "imread"}
METHODS = {"open", "read_text", "read_bytes", "open_memmap"}  # of anything: Path.open, Image.open, os.open, av.open ...
OF_MODULES = {
    "np": {"load", "fromfile", "memmap", "loadtxt", "genfromtxt"},
    "torch": {"load"},
    "pickle": {"load", "loads"},
    "json": {"load", "loads"},
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
    "io": {"FileIO"},
    "scipy": {"loadmat"},
    "fileinput": {"input"},
}

OWN = "what ndformer itself wrote or ships, and nobody else"
WRITES = "it writes"
MAPPED = "in memory is what is looked at"
SNIFFED = "after a look at what container it is, in a process of its own"
LINES = "lines that the gate has read"
CHECKPOINT = "the reader of checkpoints, with a digest and bounds of its own"
RUN = "a file of a run, whose reader checks it"
ADAPTER = "the method of adapters and datasets, which reads by the gate"

ALLOWED = {
    "ndformer/__main__.py": {"path.read_text": OWN},
    "ndformer/framework/answers/tables.py": {"path.open": WRITES},
    "ndformer/framework/archive.py": {"path.open": CHECKPOINT, "zipfile.ZipFile": CHECKPOINT, "torch.load": CHECKPOINT},
    "ndformer/framework/contract/parts.py": {"pickle.loads": "what was pickled a line before"},
    "ndformer/framework/data/memory.py": {"pickle.loads": "what this process has pickled and kept in its memory"},
    "ndformer/framework/data/folders.py": {"self.open": ADAPTER},
    "ndformer/framework/engine/config/inherit.py": {"path.read_text": "configs are code, which is said"},
    "ndformer/framework/engine/config/kept.py": {"path.read_text": RUN, "json.loads": RUN, "path.read_bytes": RUN},
    "ndformer/framework/engine/programs/files.py": {
        "self.adapters[name].open": ADAPTER,
    },
    "ndformer/framework/engine/studies/compare.py": {
        "json.loads": RUN,
        "path.read_text": RUN,
    },
    "ndformer/framework/engine/studies/train_all.py": {
        "(run.folder / LOG).read_text": RUN,
        "(run.folder / LOG).open": WRITES,
    },
    "ndformer/framework/engine/studies/conduct.py": {
        "json.loads": RUN,
        "(cell.folder / CELL).read_text": RUN,
        "(cell.folder / LOG).read_text": RUN,
        "(cell.folder / LOG).open": WRITES,
    },
    "ndformer/studies/__init__.py": {"file.read_text": OWN},
    "ndformer/studies/training.py": {
        "json.loads": RUN,
        "(self.folder / RESULTS).read_text": RUN,
        "os.open": "a lock, of which nothing is read",
    },
    "ndformer/framework/engine/training/checkpoint.py": {
        "open": WRITES,
        "path.read_bytes": RUN,
        "os.open": "a folder, to be synced",
    },
    "ndformer/framework/engine/training/agreement.py": {"path.read_bytes": OWN},
    "ndformer/framework/engine/training/console.py": {"open": WRITES, "os.open": WRITES},
    "ndformer/framework/engine/training/exported.py": {"_safetensors().safe_open": RUN, "json.loads": RUN},
    "ndformer/framework/engine/training/owner.py": {
        "Path(f'/proc/{number}/stat').read_text": "the system's own",
        "boot.read_text": "the system's own",
        "json.loads": RUN,
        "made.read_bytes": RUN,
        "open": WRITES,
        "os.open": WRITES,
        "path.read_text": RUN,
    },
    "ndformer/framework/pictures/explorer/page.py": {"folder.joinpath(name).read_text": OWN},
    "ndformer/framework/pipes.py": {"os.open": "os.devnull"},
    "ndformer/framework/processes.py": {"open": "os.devnull"},
    "ndformer/modalities/driving/formats/index.py": {"half.open": WRITES},
    "ndformer/modalities/events/datasets/gen1/index.py": {"half.open": WRITES},
    "ndformer/modalities/events/datasets/gesture.py": {"csv.reader": LINES},
    "ndformer/modalities/events/formats/aedat.py": {"path.open": WRITES},
    "ndformer/modalities/events/formats/aedat4.py": {
        "aedat.Decoder": "a regular file, whose packets were looked at",
        "os.open": "os.devnull",
    },
    "ndformer/modalities/events/formats/binary.py": {"np.memmap": MAPPED},
    "ndformer/modalities/events/formats/text.py": {"np.loadtxt": LINES},
    "ndformer/modalities/image/datasets/imagenet.py": {"csv.DictReader": LINES},
    "ndformer/modalities/image/describe/sets.py": {"zlib.decompressobj": "16 bytes of it"},
    "ndformer/modalities/pointcloud/datasets/cache.py": {"half.open": WRITES},
    "ndformer/modalities/pointcloud/datasets/paired.py": {"csv.DictReader": LINES},
    "ndformer/modalities/pointcloud/datasets/scannet_raw.py": {"csv.DictReader": LINES},
    "ndformer/modalities/pointcloud/formats/meshes.py": {"np.loadtxt": LINES},
    "ndformer/modalities/pointcloud/formats/pcd.py": {"np.loadtxt": LINES},
    "ndformer/modalities/pointcloud/formats/text.py": {"np.loadtxt": LINES},
    "ndformer/modalities/pointcloud/voting.py": {
        "checkpoint.read_bytes": RUN,
        "half.open": WRITES,
        "json.loads": RUN,
        "kept.read_text": RUN,
        "np.load": RUN,
    },
    "ndformer/modalities/video/formats/backends.py": {"av.open": SNIFFED, "decord.VideoReader": SNIFFED},
    "ndformer/modalities/video/formats/child.py": {"json.loads": "a line of the process that started it"},
    "ndformer/modalities/video/formats/process.py": {"json.loads": "a line of the process that it started"},
    "ndformer/modalities/video/formats/writing.py": {"av.open": WRITES},
}


def opening(file: Path) -> Iterator[str]:
    """Also where it is passed on."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Name(id=name) if name in NAMES:
                yield name
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in OF_MODULES.get(module, ()):
                yield f"{module}.{name}"
            case ast.Attribute(attr=name) if name in METHODS | NAMES:
                yield ast.unparse(node)


FILES = [file for folder in ("ndformer", "tools") for file in sorted((ROOT / folder).rglob("*.py"))]
FILES = [file for file in FILES if GATE not in file.parents and not {"stand_ins", "benchmarks"} & set(file.parts)]
FOUND = {file.relative_to(ROOT).as_posix(): calls for file in FILES if (calls := set(opening(file)))}


def test_every_opening_of_a_file_is_of_the_gate_or_has_a_reason():
    strange = {file: new for file, calls in FOUND.items() if (new := calls - ALLOWED.get(file, {}).keys())}
    assert not strange, f"open them by ndformer.framework.foreign, or say here why not: {strange}"


def test_each_reason_is_of_an_opening_that_there_is():
    gone = {file: old for file, calls in ALLOWED.items() if (old := calls.keys() - FOUND.get(file, set()))}
    assert not gone, f"take them out: {gone}"


@pytest.mark.parametrize(
    "line",
    [
        "open(path)", "path.open()", "os.open(path, 0)", "Image.open(path)", "path.read_text()", "np.load(path)",
        "np.memmap(path)", "gzip.open(path)", "zipfile.ZipFile(path)", "tarfile.open(path)", "h5py.File(path)",
        "pickle.loads(content)", "torch.load(path)", "json.load(file)", "yaml.safe_load(file)", "av.open(path)",
        "scipy.loadmat(path)", "decord.VideoReader(path)", "cv2.imread(path)", "cv2.VideoCapture(path)",
        "ElementTree.parse(path)", "csv.reader(file)", "zlib.decompress(content)", "safe_open(path)", "io.FileIO(path)",
    ],
)  # fmt: skip
def test_openings_are_seen(tmp_path, line):
    (tmp_path / "a.py").write_text(f"def f(path):\n    return {line}\n")
    assert len(list(opening(tmp_path / "a.py"))) == 1
