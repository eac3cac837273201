"""Training steps of shipped configs, and each line that waits for the GPU: a step of tools/benchmarks/gpu.py."""

from __future__ import annotations

import contextlib
import statistics
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training.console import Console, Log
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.engine.training.trainer import Trainer
from tools.benchmarks.gpu_timing import Bench, Measure

ROOT = Path(__file__).resolve().parents[2]


def training(bench: Bench, config: str) -> Measure:
    """Steps of a shipped config on its generated sample: their time, and each line that waits for the GPU."""
    options = [f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test")]
    options += ["train_dataloader.batch_size=2"] if bench.dry else []
    cfg = load(ROOT / "configs" / f"{config}.py", options, sample=True)
    if bench.dry:  # the other samples take longer to make
        cfg = load(ROOT / "configs" / "mnist_small.py", options, sample=True)
    prepare_data(cfg, sample=True)
    cfg, _ = calibrate(cfg)
    model = build_model(cfg, bench.device)

    def measure() -> None:
        loaders = {split: build_loader(cfg, split) for split in ("train", "val", "test")}
        folder = Path.cwd() / config
        folder.mkdir(exist_ok=True)
        with contextlib.suppress(Finished), owned(folder) as ownership:
            case = f"training step, {config}, batches of {loaders['train'].batch_size}"
            TimedTrainer(bench, case, cfg, ownership, loaders, model, Console(Log(None))).train()

    return measure


class Finished(Exception):
    """Raised in a training step when enough steps are measured."""


class TimedTrainer(Trainer):
    """A trainer that measures its steps, stops after 45, and records the lines of one step that wait for the GPU."""

    first_steps = 5  # they compile and are not timed; waits are recorded in the last

    def __init__(self, bench: Bench, case: str, *args: Any) -> None:
        self.bench, self.case = bench, case
        self.steps_ms: list[float] = []
        super().__init__(*args)

    def train_step(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.bench.wait()
        begin = time.perf_counter()
        watched = len(self.steps_ms) == self.first_steps - 1
        with self.waits_recorded() if watched and not self.bench.dry else contextlib.nullcontext():
            outputs = super().train_step(batch)
        self.bench.wait()
        self.steps_ms.append(1e3 * (time.perf_counter() - begin))
        if len(self.steps_ms) >= (2 if self.bench.dry else 45):
            times = self.steps_ms[1 if self.bench.dry else self.first_steps :]
            self.bench.record(self.case, ms=statistics.median(times), calls=len(times))
            raise Finished
        return outputs

    @contextlib.contextmanager
    def waits_recorded(self) -> Iterator[None]:
        lines: Counter[str] = Counter()

        def count(message: Any, *args: Any, **options: Any) -> None:
            if "called a synchronizing" in str(message):
                frames = [f for f in traceback.extract_stack() if f.filename.startswith(f"{ROOT}/ndformer/")]
                places = [f"{Path(f.filename).relative_to(ROOT)}:{f.lineno} {f.name}" for f in frames[-1:]]
                lines[places[0] if places else "outside of ndformer"] += 1

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = count
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode("default")
        self.bench.record(self.case, waits=dict(lines.most_common()))
