"""Measure the time and memory of calls, and append each figure to results.jsonl as soon as it is known."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from tools.benchmarks.turns import FLUSHED_BYTES, Call, event_pair, peak_mib

Measure = Callable[[], None]  # what a step returns after its warm-up
MAX_CALLS = 500


class Bench:
    """The device of one benchmark step, its sizes (`dry`: tiny, on the CPU), and the folder for its figures."""

    def __init__(self, step: str, folder: Path, dry: bool) -> None:
        self.step, self.folder, self.dry = step, folder, dry
        self.device = "cpu" if dry else "cuda"
        self.dtype = torch.float32 if dry else torch.bfloat16
        torch.manual_seed(0)

    def record(self, case: str, row: str = "", **values: Any) -> None:
        line = json.dumps(dict(step=self.step, case=case, row=row, **values), default=str)
        with open(self.folder / "results.jsonl", "a") as file:
            file.write(line + "\n")
        short = "  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in values.items())
        print(f"{case} | {row}: {short}"[:300], flush=True)

    @contextlib.contextmanager
    def attempt(self, case: str, row: str = "") -> Iterator[None]:
        """Record an error as a result, so that the other rows are still measured."""
        try:
            yield
        except Exception as error:
            frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
            self.record(case, row, error=f"{type(error).__name__}: {str(error)[:400]}", frames=frames[-5:])
            if not self.dry:
                torch.cuda.empty_cache()

    def warm_up(self, case: str, calls: dict[str, Call]) -> dict[str, Call]:
        """Call each once, so that it is compiled. Return those that ran."""
        ran = {}
        for row, call in calls.items():
            with self.attempt(case, row):
                call()
                self.wait()
                ran[row] = call
        return ran

    def compare(self, case: str, calls: dict[str, Call], bases: Sequence[str], milliseconds: float = 60.0) -> None:
        """Time all calls, with ratios over each base. The first base is timed again at the end: the noise."""
        bases = [base for base in bases if base in calls]
        order = [*bases, *(row for row in calls if row not in bases), *bases[:1]]
        base_ms: dict[str, float] = {}
        for k, row in enumerate(order):
            again = k > 0 and k == len(order) - 1 and row in bases
            with self.attempt(case, row):
                found = self.measure(calls[row], milliseconds)
                if row in bases and not again:
                    base_ms[row] = found["ms"]
                ratios = {base: round(found["ms"] / ms, 4) for base, ms in base_ms.items()}
                self.record(case, f"{row} (again)" if again else row, **found, ratios=ratios)

    def measure(self, call: Call, milliseconds: float) -> dict[str, float]:
        """Median and quartiles of a call, the time in which the host starts one, and the peak of the allocator."""
        times = self._times(call, milliseconds)
        self.wait()
        begin = time.perf_counter()
        call()
        host_ms = 1e3 * (time.perf_counter() - begin)
        self.wait()
        low, middle, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
        return dict(ms=middle, low=low, high=high, calls=len(times), host_ms=host_ms, peak_mib=self.peak_mib(call))

    def _times(self, call: Call, milliseconds: float) -> list[float]:
        call()
        self.wait()
        begin = time.perf_counter()
        call()
        self.wait()
        first = 1e3 * (time.perf_counter() - begin)
        if self.dry:
            return [first]
        flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device=self.device)
        count = min(MAX_CALLS, max(1, int(milliseconds / first)))
        events = [event_pair(call, flushed) for _ in range(count)]
        self.wait()
        return [start.elapsed_time(end) for start, end in events]

    def peak_mib(self, call: Call) -> float:
        """Run a call. Return the most memory that it added to what was allocated before (0 on the CPU)."""
        if self.dry:
            call()
            return 0.0
        return peak_mib(call)

    def wait(self) -> None:
        if not self.dry:
            torch.cuda.synchronize()

    def profile(self, case: str, row: str, call: Call) -> None:
        """Record how long the GPU is busy in a call and how many kernels start; append a table to profile.txt."""
        from torch.profiler import ProfilerActivity, profile  # here: takes a second to import

        activities = [ProfilerActivity.CPU, *([] if self.dry else [ProfilerActivity.CUDA])]
        self.wait()
        begin = time.perf_counter()
        with profile(activities=activities, acc_events=True) as profiler:
            call()
            self.wait()
        wall_ms = 1e3 * (time.perf_counter() - begin)
        events = profiler.key_averages()
        kernels = [e for e in events if "CUDA" in str(e.device_type) and not e.is_user_annotation]
        launches = sum(e.count for e in events if e.key.startswith(("cudaLaunchKernel", "cuLaunchKernel")))
        busy_ms = sum(e.self_device_time_total for e in kernels) / 1e3
        self.record(case, row, profile=dict(wall_ms=wall_ms, gpu_busy_ms=busy_ms, launches=launches))
        order = "self_cpu_time_total" if self.dry else "self_cuda_time_total"
        with open(self.folder / "profile.txt", "a") as file:
            file.write(f"\n{case}, {row}\n{events.table(sort_by=order, row_limit=40, max_name_column_width=80)}\n")


def both_ways(train: bool) -> str:
    return "forward and backward" if train else "forward"
