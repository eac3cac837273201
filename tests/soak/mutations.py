"""A mutation check: 40 planted faults, each caught by `make test-all`, at least 34 of them by `make test` alone.

python -m tests.soak.mutations                        all faults, two at a time, in copies of the repository
python -m tests.soak.mutations --only alibi-slopes    one of them

A fault is one line of the package written as a small slip would write it. Tests that should notice run in the everyday
tier (tests/tiers.py), then, where none fails, with --all. A test that fails must pass again once the fault is undone.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WORKERS = 2
EVERYDAY, ALL = 34, 40  # faults that `make test` and `make test-all` catch at least
LIMIT, ENDLESS = 600, "a run without an end"  # seconds of a run of tests; a fault may make a loop endless
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?\.py(?:::\w+(?:\[.*?\])?)?)(?: - .*)?$", re.MULTILINE)


class Fault(NamedTuple):
    name: str
    file: str  # in ndformer/
    old: str  # once in the file
    new: str
    tests: str  # in tests/, the most likely to fail first


TOKENS, KERNELS = "framework/test_tokens.py", "framework/test_kernels.py framework/test_attention.py"
REFERENCE = "encodings/test_reference.py::test_output_and_gradients_are_those_of_the_reference"
TRAINING = "framework/engine/training/test_training.py"

# fmt: off
FAULTS = [Fault(*row) for row in (
    ("padding-slots", "framework/tokens.py",
     "return values.masked_fill(empty.reshape(*empty.shape, *[1] * (flat.dim() - 1)), 0)", "return values", TOKENS),
    ("packing-boundary", "framework/tokens.py",
     "start[:, 1:] = segment[:, 1:] != segment[:, :-1]", "start[:, 1:] = segment[:, 1:] > segment[:, :-1]", TOKENS),
    ("unplaced-junk", "framework/tokens.py", "return self.valid & self.placed", "return self.valid", TOKENS),
    ("dense-chunk", "framework/kernels/dense.py",
     "bias_rows(bias, where, lo, hi)", "bias_rows(bias, where, 0, hi - lo)", KERNELS),
    ("sdpa-scale", "framework/kernels/sdpa.py", "fq = fq / scale", "fq = fq * scale", f"framework/bias {KERNELS}"),
    ("flex-unplaced", "framework/kernels/flex.py",
     "placed[b, i] & placed[b, j]", "placed[b, i] | placed[b, j]", KERNELS),
    ("narrow-gradient", "framework/kernels/narrow.py",
     "dk = keys.from_eights(dk) * math.log(2)", "dk = keys.from_eights(dk)", "framework/test_narrow.py"),
    ("mask-segments", "framework/kernels/masks.py",
     "same = (runs[:, lo:hi, None] == runs", "same = (runs[:, lo:hi, None] >= runs", KERNELS),
    ("backend-order", "framework/kernels/choose.py",
     "AUTO = list(reversed(BACKENDS.values()))", "AUTO = list(BACKENDS.values())", KERNELS),
    ("rotation-direction", "framework/kernels/rotation.py",
     "[-x[..., 1::2], x[..., 0::2]]", "[x[..., 1::2], -x[..., 0::2]]", f"encodings/test_rotary.py {REFERENCE}"),
    ("cone-border", "framework/bias/pointwise.py", "inside = along >= (select(self.cosines) - self.tolerance) *",
     "inside = along >= (select(self.cosines)) *", "encodings/test_lookhere.py"),
    ("table-stride", "framework/bias/pointwise.py", "joint * (2 * limit + 1)", "joint * (2 * limit)",
     f"encodings/test_relative.py {REFERENCE}"),
    ("quadratic-twice", "framework/bias/parabolas.py", "if a == b else 2 * r[a] * r[b]", "if a == b else r[a] * r[b]",
     "encodings/test_pape.py framework/bias"),
    ("pape-root", "encodings/pape.py",
     "(wp * self.head_dim**-0.5).transpose(1, 2)", "wp.transpose(1, 2)", f"encodings/test_pape.py {REFERENCE}"),
    ("alibi-slopes", "encodings/alibi.py", "alibi_slopes(2 * lower)[0::2]", "alibi_slopes(2 * lower)[1::2]", REFERENCE),
    ("axial-axes", "encodings/rotary.py", "table[..., _inverse(self.axes)]", "table[..., list(self.axes)]",
     f"encodings/test_presets.py encodings/test_rotary.py {REFERENCE}"),
    ("mixed-frequencies", "encodings/rotary_directions.py",
     "frequencies = base ** -(torch.arange(n) / n)", "frequencies = base ** -(torch.arange(n) / max(1, n - 1))",
     f"encodings/test_rotary.py encodings/test_presets.py {REFERENCE} encodings/test_initial_radius.py"),
    ("absolute-centers", "encodings/learnable_absolute.py",
     "centers = (torch.arange(new, dtype=like.dtype, device=like.device) + 0.5)",
     "centers = (torch.arange(new, dtype=like.dtype, device=like.device) + 0.0)",
     "encodings/test_learnable.py"),
    ("cope-equal-rank", "encodings/cope.py", "order.start[:, None, None] >= end", "order.start[:, None, None] > end",
     f"encodings/test_cope.py {REFERENCE}"),
    ("sape2-side", "encodings/sape2.py", "gates.flip(-1).cumsum(-1).flip(-1)", "gates.cumsum(-1)",
     "encodings/test_sape2.py encodings/test_reference.py"),
    ("norm-order", "framework/transformer.py",
     "self.mlp(self.norm2(x))", "self.norm2(self.mlp(x))", "framework/test_transformer.py integrations/importers"),
    ("class-token", "framework/heads/classifier.py", "tokens.features[:, 0]", "tokens.features[:, -1]",
     "integrations/importers modalities/test_class_tokens.py"),
    ("warmup-step", "framework/engine/training/schedules.py",
     "(update + 1) / (ramp + 1)", "update / (ramp + 1)", "framework/engine/training/test_schedules.py"),
    ("ema-decay", "framework/engine/training/ema.py", "1 - self.decay", "self.decay",
     "framework/engine/training/test_ema.py"),
    ("best-direction", "framework/quantity.py",
     "-math.inf if math.isnan(value) else self.oriented(value)", "-math.inf if math.isnan(value) else value",
     f"framework/test_quantity.py {TRAINING}"),
    ("patience", "framework/engine/training/history.py",
     "self.quantity.best(self.values) >= self.patience", "self.quantity.best(self.values) > self.patience", TRAINING),
    ("resume-step", "framework/engine/training/run_state.py",
     'state["epoch"], state["iter"], state["batch"]', 'state["epoch"], state["iter"] + 1, state["batch"]',
     "framework/engine/training/test_resume.py"),
    ("decay-of-vectors", "framework/engine/training/optim.py", "parameter.dim() <= 1", "parameter.dim() < 1", TRAINING),
    ("accumulated-rest", "framework/engine/training/optim_wrapper.py",
     ">= self.epoch - remainder", "> self.epoch - remainder",
     "framework/engine/training/test_optim_wrapper.py"),
    ("leakage-of-test", "framework/engine/training/leakage.py",
     '("test", "train"), ("test", "val"))', '("test", "val"))', "framework/engine/training/test_leakage.py"),
    ("per-class-first", "framework/data/dataset.py",
     "np.random.default_rng((self.seed, label)).permutation(members)[:count]", "members[:count]",
     "framework/data/test_dataset.py"),
    ("mixup-labels", "modalities/image/transforms/mix.py", "share * targets + (1 - share) * others_targets[order]",
     "share * targets + (1 - share) * others_targets", TRAINING),
    ("top5", "framework/evaluation/accuracy.py", "(rank < 5)", "(rank <= 5)", "framework/evaluation"),
    ("coco-threshold", "framework/evaluation/coco/match.py", "iou[low:high] >= thresholds[:, None]",
     "iou[low:high] > thresholds[:, None]", "framework/evaluation/coco modalities/events/test_gen1_metric.py"),
    ("nms-union", "framework/heads/nms.py", "(area[:, None] + area - both)", "(area[:, None] + area)",
     "framework/heads/test_detector.py"),
    ("event-window", "modalities/events/formats/stream.py", "np.searchsorted(self.t, [start, end])",
     'np.searchsorted(self.t, [start, end], "right")', "modalities/events/test_controls.py modalities/events"),
    ("voxel-of-negatives", "modalities/pointcloud/transforms/points.py",
     "grid = np.floor(points.astype(np.float64) / size)", "grid = np.trunc(points.astype(np.float64) / size)",
     "modalities/pointcloud/test_transforms.py modalities/pointcloud/test_scene_transforms.py"),
    ("size-of-rows", "framework/foreign/files.py", "8 * status(path).st_size", "status(path).st_size",
     "framework/foreign/test_plain.py modalities/pointcloud/test_readers.py"),
    ("encoding-ignored", "cli/program.py",
     "options, args.encoding, args.sample", "options, None, args.sample",
     "tools/test_print_config.py cli"),
    ("verdict-interval", "lab/verdicts.py", '"contradicted" if margin <= -wider', '"contradicted" if margin <= 0',
     "lab/test_experiment.py"),
)]
# fmt: on


def mutated(text: str, fault: Fault) -> str:
    count = text.count(fault.old)
    if count != 1:
        raise SystemExit(
            f"{fault.name}: expected the old text once in ndformer/{fault.file}, got it {count} times. Write it as the "
            f"file has it now: {fault.old}"
        )
    return text.replace(fault.old, fault.new)


def copied(folder: Path) -> Path:
    """Copy the tracked files of the repository."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def failed(folder: Path, tests: Sequence[str], *options: str) -> str | None:
    """Return the first test that fails in a copy; None if all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options, *tests]
    # without bytecode: Python takes a file of the same size and second for the file before
    env = os.environ | dict(PYTHONPATH=str(folder), OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", COLUMNS="1000")
    try:
        run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return ENDLESS
    found = FAILED.search(run.stdout)
    if run.returncode and not found:
        raise SystemExit(f"pytest {' '.join(tests)} ended with code {run.returncode}:\n{run.stdout}{run.stderr}")
    return found[1] if found else None


class Outcome(NamedTuple):
    fault: str
    everyday: bool
    all: bool
    seconds: float
    test: str  # that caught it


def judged(folder: Path, fault: Fault) -> Outcome:
    start, file = time.monotonic(), folder / "ndformer" / fault.file
    text, tests = file.read_text(), [f"tests/{name}" for name in fault.tests.split()]
    file.write_text(mutated(text, fault))
    try:
        everyday = failed(folder, tests)
        test = everyday or failed(folder, tests, "--all")
    finally:
        file.write_text(text)
    seconds = time.monotonic() - start
    if test not in (None, ENDLESS) and failed(folder, [test], "--all"):
        return Outcome(fault.name, False, False, seconds, f"{test} fails without the fault too: repair it first")
    return Outcome(fault.name, everyday is not None, test is not None, seconds, test or "")


def outcomes(faults: Sequence[Fault]) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        own, names = threading.local(), iter("ab")  # one copy for each worker

        def judge(fault: Fault) -> Outcome:
            if not hasattr(own, "copy"):
                own.copy = copied(Path(folder) / next(names))
            return judged(own.copy, fault)

        yield from pool.map(judge, faults)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", choices=[fault.name for fault in FAULTS], help="one fault")
    only = parser.parse_args().only
    chosen = [fault for fault in FAULTS if only in (None, fault.name)]
    for fault in chosen:
        mutated((ROOT / "ndformer" / fault.file).read_text(), fault)
    print(f"{'fault':20} make test  make test-all  seconds  caught by")
    found = []
    for o in outcomes(chosen):
        found.append(o)
        words = ["yes" if caught else "no" for caught in (o.everyday, o.all)]
        print(f"{o.fault:20} {words[0]:9}  {words[1]:13}  {o.seconds:7.0f}  {o.test}", flush=True)
    everyday, every = sum(o.everyday for o in found), sum(o.all for o in found)
    print(f"caught of {len(found)} faults: {everyday} by make test, {every} by make test-all")
    missed = len(FAULTS) - len(found)  # by --only
    sys.exit(everyday + missed < EVERYDAY or every + missed < ALL)


if __name__ == "__main__":
    main()
