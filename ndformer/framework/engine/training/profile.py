"""A hook that records a range of training steps with torch.profiler."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.runs import attempted
from ndformer.framework.system import processes

if TYPE_CHECKING:
    from ndformer.framework.engine.training.runner import Runner

FOLDER = "profile"  # in the work dir


class Profile:
    """A hook that records steps `first` to `last` of a run.

    Each process writes a Chrome trace to WORK_DIR/profile; rank 0 prints the 20 costliest operations.
    """

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.profiler: torch.profiler.profile | None = None

    def before_train(self, runner: Runner) -> None:
        if self.last > runner.max_iters:
            raise DataError(f"profile: expected steps up to {runner.max_iters}, the last of the run, got {self.last}")
        if self.first <= runner.iter:
            runner.console.print(f"no profile: {runner.iter} steps are already done, and it begins with {self.first}")

    def before_train_iter(self, runner: Runner, **arguments: Any) -> None:
        if runner.iter + 1 == self.first:
            self.profiler = torch.profiler.profile()
            self.profiler.start()

    def after_train_iter(self, runner: Runner, **arguments: Any) -> None:
        if runner.iter + 1 >= self.last:
            self.after_train(runner)

    def after_train(self, runner: Runner) -> None:
        """Write the trace, also if training ends before the last step."""
        if self.profiler is None:
            return
        profiler, self.profiler = self.profiler, None
        profiler.stop()
        path = runner.folder / FOLDER / f"rank{processes.rank()}.json.gz"
        with attempted(path):
            path.parent.mkdir(exist_ok=True)
            profiler.export_chrome_trace(str(path))
        key = "self_device_time_total" if runner.device.type == "cuda" else "self_cpu_time_total"
        runner.console.print(profiler.key_averages().table(sort_by=key, row_limit=20, max_name_column_width=40))
        runner.console.print(f"steps {self.first} to {runner.iter + 1}: {path}, for chrome://tracing or perfetto.dev")


def parse_steps(text: str) -> tuple[int, int]:
    """Parse a range of steps: "10:20"."""
    numbers = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)
    first, last = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= first <= last:
        raise DataError(f"profile: expected the first and the last step, 1 or above, such as 10:20, got '{text}'")
    return first, last
