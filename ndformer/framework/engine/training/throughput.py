"""Hooks that measure training: tokens and FLOPs per second, peak memory, and steps recorded by torch.profiler."""

from __future__ import annotations

import math
import re
import resource
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ndformer.framework.adapter import Adapter
from ndformer.framework.errors import DataError
from ndformer.framework.kernels.dense import Dense
from ndformer.framework.kernels.flex import Flex
from ndformer.framework.kernels.narrow import Narrow
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.runs import attempted
from ndformer.framework.system import processes
from ndformer.framework.tokens import TokenSet

if TYPE_CHECKING:
    from ndformer.framework.engine.training.runner import Runner

FOLDER = "profile"  # in the work dir
SAMPLES = 8  # number of samples of the first batch on which FLOPs are counted


class Throughput:
    """A hook that measures the training steps of each epoch: `rates` for curves, `line` for the log.

    Tokens are counted without padding, class tokens and registers. A step takes three times the FLOPs of a forward
    pass, which are counted once per sample, on the first batch of each set of modalities. This is done at the end of an
    epoch by all processes together: a sharded model cannot be computed by one of them.
    """

    def __init__(self, model: TokenModel) -> None:
        self.forward_flops: dict[tuple[str, ...], float] = {}  # per sample, by the modalities of a batch
        self.first_inputs: dict[tuple[str, ...], dict[str, Any]] = {}  # of this epoch, whose FLOPs are not yet counted
        self.rates: dict[str, float] = {}
        self.tokens: int | Tensor = 0
        self.samples = Counter[tuple[str, ...]]()
        for adapter in model.modalities.values():
            adapter.register_forward_hook(self._count_tokens)

    def _count_tokens(self, adapter: nn.Module, args: tuple[Any, ...], tokens: Any) -> None:
        if adapter.training and isinstance(tokens, TokenSet):
            (rows, slots, _), valid = tokens.features.shape, tokens.where.valid
            # the sum of a mask stays on the device until the epoch ends
            counted = rows * slots if valid is None else valid.sum() * (rows // len(valid))
            samples = rows if tokens.where.segment is None else len(args[0])
            self.tokens = self.tokens + counted - samples * len(cast(Adapter, adapter).prefix_names)

    def before_train_epoch(self, runner: Runner) -> None:
        self.tokens, self.samples = 0, Counter()

    def after_train_iter(self, runner: Runner, batch_idx: int, data_batch: dict[str, Any], outputs: Any) -> None:
        modalities, samples = tuple(data_batch["inputs"]), len(data_batch["data_samples"])
        self.samples[modalities] += samples
        if samples and modalities not in self.forward_flops and modalities not in self.first_inputs:
            few = {name: value[:SAMPLES] for name, value in data_batch["inputs"].items()}
            self.first_inputs[modalities] = {n: v.clone() if isinstance(v, Tensor) else v for n, v in few.items()}

    def after_train_epoch(self, runner: Runner) -> None:
        """Compute rates summed over all processes, whose batches may have different sizes."""
        everywhere = processes.gather_objects((self.samples, int(self.tokens), [*self.first_inputs]))
        for modalities in dict.fromkeys(name for _, _, names in everywhere for name in names):
            source = next(rank for rank, (_, _, names) in enumerate(everywhere) if modalities in names)
            inputs = self.first_inputs.pop(modalities, None)
            shared = processes.gather_objects(inputs if processes.rank() == source else None)[source]
            assert shared is not None
            self.forward_flops[modalities] = count_flops(runner.model, shared)
        progress, samples = runner.progress, sum((counts for counts, _, _ in everywhere), Counter[tuple[str, ...]]())
        progress.all_samples = samples.total()
        per_second = 1 / max(1e-9, progress.seconds)
        tokens = sum(count for _, count, _ in everywhere)
        self.rates = dict(samples_per_second=progress.rate, tokens_per_second=tokens * per_second)
        flops = 3 * sum(count * self.forward_flops[modalities] for modalities, count in samples.items() if count)
        if math.isfinite(flops):
            self.rates["flops_per_second"] = flops * per_second
        self.rates |= dict(loader_wait=progress.wait_share, memory_gib=peak_memory(runner.device) / 2**30)

    @property
    def line(self) -> str:
        formats = dict(tokens_per_second="{:.3g}{} tokens/s", flops_per_second="{:.3g} {}FLOP/s")
        rates = [text.format(*_with_prefix(self.rates[name])) for name, text in formats.items() if name in self.rates]
        return "  ".join([*rates, f"{self.rates['memory_gib']:.1f} GiB"])


def _with_prefix(value: float) -> tuple[float, str]:
    """Split a number into a value and an SI prefix: 12300 into 12.3 and "k"."""
    power = min(5, int(math.log10(max(1.0, value)) // 3))
    return value / 1000**power, ["", *"kMGTP"][power]


def count_flops(model: TokenModel, inputs: dict[str, Any]) -> float:
    """Return the FLOPs of a forward pass per sample of the inputs; NaN if they cannot be counted.

    The pass is one of evaluation, so that it changes neither random states nor running statistics.
    """
    samples = len(next(iter(inputs.values())))
    narrow_flops, narrow = 0, Narrow.__call__

    def count_narrow(self: Narrow, q: Tensor, k: Tensor, v: Tensor, *arguments: Any) -> Tensor:
        nonlocal narrow_flops
        narrow_flops += attention_flops(q, k, v)
        return narrow(self, q, k, v, *arguments)

    # attention that torch's counter does not know
    kernels: list[Any] = [torch.ops.aten._scaled_dot_product_flash_attention_for_cpu]
    kernels += [torch.ops.ndformer.attention] if hasattr(torch.ops.ndformer, "attention") else []  # if a step used it
    counter = FlopCounterMode(display=False, custom_mapping=dict.fromkeys(kernels, attention_flops))
    training = model.training
    model.eval()
    try:
        with (
            torch.no_grad(),
            torch.compiler.set_stance("force_eager"),
            patch.object(Narrow, "__call__", count_narrow),
            patch.object(Flex, "__call__", Dense.__call__),  # uncompiled, it would hold all pairs
            counter,
        ):
            model(model.to_device(dict(inputs=inputs))["inputs"])
        return (counter.get_total_flops() + narrow_flops) / samples
    except Exception:  # a head may not support evaluation of training batches, and the run does not need the count
        return math.nan
    finally:
        model.train(training)


def attention_flops(q: Tensor, k: Tensor, v: Tensor, *arguments: Any, **options: Any) -> int:
    """Return the FLOPs of q k' and of the product with v; `arguments[3]` of ndformer::attention are spans of keys."""
    rows, heads, queries, width = q.shape
    pairs = rows * queries * k.shape[2]
    if len(arguments) > 3 and isinstance(spans := arguments[3], Tensor):
        pairs = int((spans[:, 1] - spans[:, 0]).clamp(min=0).sum()) * (rows // len(spans))
    return 2 * heads * pairs * (width + v.shape[3])


attention_flops._get_raw = True  # pyright: ignore[reportFunctionMemberAccess] (torch passes tensors, not shapes)


def peak_memory(device: torch.device) -> int:
    """Return the largest memory so far in bytes: of tensors on a GPU, of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


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
