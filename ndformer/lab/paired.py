"""The gain of one encoding over another, paired by seed and by test sample, with its interval and p-value.

gain = paired_gain({0: correct, 1: correct}, {0: correct, 1: correct})      by seed, a value for each test sample
gain.mean, gain.half, gain.p                                        the 95 % interval is mean +- half
holm([gain.p, ...])                                                 p-values of several comparisons, adjusted

A seed and a test sample are both drawn at random. The differences d of S seeds and n samples are a table with crossed
random effects, and the mean has the variance (MS_seeds + MS_samples - MS_rest) / (S n), with Satterthwaite's degrees of
freedom (Clark 1973, quasi-F). An interval over seeds alone ignores that another test set would give another mean.
Folds have other test samples each: there gains have Student's interval over the folds alone (gain_over()).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.plain import plain_json
from ndformer.framework.quantity import Quantity
from ndformer.framework.system import atomic
from ndformer.lab.interval import Summary, student_t

FILE = "correct.json"  # in the folder of a run: which test samples it has right
ALPHA = 0.05


@dataclass(frozen=True)
class PairedGain:
    """A mean difference with its standard error, from seeds and test samples."""

    mean: float
    error: float  # standard error of the mean
    freedom: float  # degrees of freedom of the error

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval."""
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, 0.975)) * self.error

    @property
    def p(self) -> float:
        """The two-sided p-value of no difference."""
        return p_value(self.mean, self.error, self.freedom)


def paired_gain(first: Mapping[Any, NDArray[Any]], second: Mapping[Any, NDArray[Any]]) -> PairedGain | None:
    """Return the gain over the seeds that both have; None with fewer than two, or with other test samples."""
    both = [seed for seed in first if seed in second]
    if len(both) < 2 or len({values[seed].shape for values in (first, second) for seed in both}) > 1:
        return None
    d = np.stack([first[seed].astype(np.float64) - second[seed].astype(np.float64) for seed in both])  # (S, n)
    S, n = d.shape
    mean, rows, columns = d.mean(), d.mean(1), d.mean(0)
    seeds = n * ((rows - mean) ** 2).sum() / (S - 1)  # mean squares
    samples = S * ((columns - mean) ** 2).sum() / (n - 1)
    interaction = ((d - rows[:, None] - columns + mean) ** 2).sum() / ((S - 1) * (n - 1))
    total = seeds + samples - interaction
    freedom = S - 1.0
    if total > seeds:  # else the samples add nothing: the spread of seeds contains their part
        squares = seeds**2 / (S - 1) + samples**2 / (n - 1) + interaction**2 / ((S - 1) * (n - 1))
        freedom = max(freedom, total**2 / squares)
    return PairedGain(
        mean=float(mean),
        error=math.sqrt(max(total, seeds) / (S * n)),
        freedom=float(freedom),
    )


def interaction(
    first: tuple[Mapping[Any, NDArray[Any]], Mapping[Any, NDArray[Any]]],
    second: tuple[Mapping[Any, NDArray[Any]], Mapping[Any, NDArray[Any]]],
) -> PairedGain | None:
    """Return the difference of two gains, paired by seed and sample: how much of a lead depends on a setting.

    interaction((pape_center, sincos_center), (pape_mean, sincos_mean)) is the part of PaPE's lead over Sincos that a
    class token in the center has beyond the mean of the tokens.
    """
    seeds = [seed for seed in first[0] if all(seed in runs for runs in (*first, *second))]
    arrays = [runs[seed] for runs in (*first, *second) for seed in seeds]
    if len({array.shape for array in arrays}) != 1:
        return None
    gains = [{seed: a[seed].astype(np.float64) - b[seed] for seed in seeds} for a, b in (first, second)]
    return paired_gain(*gains)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted for several comparisons (Holm 1979), in the given order."""
    order, adjusted, lower_bound = np.argsort(p), [0.0] * len(p), 0.0
    for rank, index in enumerate(order):
        lower_bound = max(lower_bound, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = lower_bound
    return adjusted


def gain_over(
    values: Mapping[Any, float],
    base: Mapping[Any, float],
    correct: Mapping[Any, str],
    base_correct: Mapping[Any, str],
    quantity: Quantity,
) -> Summary | None:
    """Summarize the gain over a baseline, paired by the keys of `values`; above 0 is better.

    With the correct samples of all runs as text, the interval is that of paired_gain(); otherwise, and where each seed
    has a test set of its own (folds), Student's t over the keys. Raise if a run and its base have different test data.
    """
    both = [key for key in values if key in base]
    if not both:
        return None
    gains = [quantity.gain(values[key], base[key]) for key in both]
    summary = Summary.from_values(gains)
    if summary.half is None:
        return summary
    gain = None
    if all(key in texts for texts in (correct, base_correct) for key in both):
        _check_same_data(both, correct, base_correct)
        if len({_data(correct[key]) for key in both}) == 1:
            gain = paired_gain(*({key: decode(texts[key]) for key in both} for texts in (correct, base_correct)))
    if gain is None or not math.isclose(gain.mean, summary.mean, abs_tol=1e-9):  # samples of another metric
        return _by_seeds(summary, [values[key] for key in both], [base[key] for key in both])
    return replace(summary, half=gain.half, p=gain.p)


def _by_seeds(summary: Summary, values: Sequence[float], base: Sequence[float]) -> Summary:
    """Return the summary of gains with Student's interval and p-value over seeds.

    Equal gains of all seeds come from the resolution of a test set and are no certainty: they have the spread of the
    runs themselves, unpaired, and no interval if these are all equal, too.
    """
    freedom, error = summary.n - 1, (summary.sd or 0.0) / math.sqrt(summary.n)
    if error > 1e-9 * abs(summary.mean):
        return replace(summary, p=p_value(summary.mean, error, freedom))
    spreads = [Summary.from_values(runs).sd or 0.0 for runs in (values, base)]
    error = math.hypot(*spreads) / math.sqrt(summary.n)
    if error <= 1e-9 * abs(summary.mean):
        return replace(summary, half=None, p=1.0)
    return replace(summary, half=student_t(freedom) * error, p=p_value(summary.mean, error, freedom))


def _check_same_data(keys: Sequence[Any], correct: Mapping[Any, str], base_correct: Mapping[Any, str]) -> None:
    """Raise if a run and the run that it is paired with were tested on different data; earlier files do not say."""
    for key in keys:
        data = {_data(texts[key]) for texts in (correct, base_correct)} - {""}
        if len(data) > 1:
            repeat = key if str(key).startswith("seed") else f"seed {key}"
            raise DataError(
                f"{repeat}: expected the same test data for an encoding and the baseline, got different data: their "
                "gain cannot be paired. Remove the older runs, and the same command trains them again"
            )


def p_value(mean: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of a mean of 0, by Student's t."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0)


def significant(gains: Mapping[str, Summary | None]) -> dict[str, int]:
    """Return the sign of each gain that differs from 0 by Holm's correction over all of them, and 0 for the others."""
    named = {name: gain for name, gain in gains.items() if gain is not None and gain.margin is not None}
    adjusted = holm([1.0 if gain.p is None else gain.p for gain in named.values()])
    signs = {name: (1 if gain.mean > 0 else -1) * (p < ALPHA) for (name, gain), p in zip(named.items(), adjusted)}
    return {name: signs.get(name, 0) for name in gains}


def record(folder: Path, correct: NDArray[np.bool_] | None, fingerprint: Any = None) -> None:
    """Write which test samples a run has right, if its metric says so, with a digest of the test data's fingerprint."""
    if correct is not None:
        atomic.write(folder / FILE, json.dumps(encode(correct) + digest(fingerprint)) + "\n")


def digest(fingerprint: Any) -> str:
    """Return the end of a text of correct samples that identifies the test data; empty without a fingerprint."""
    if fingerprint is None:
        return ""
    text = json.dumps(_compared(fingerprint), sort_keys=True, default=str)
    return f":{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _compared(fingerprint: Any) -> Any:
    """Return the parts of a fingerprint that data with the same samples share: not `like`, which is not compared."""
    if not isinstance(fingerprint, dict):
        return fingerprint
    return {key: _compared(value) for key, value in fingerprint.items() if key != "like"}


def _data(text: str) -> str:
    """Return the digest of the test data in a text of correct samples; "" in files of earlier versions."""
    return text.split(":")[2] if text.count(":") == 2 else ""


def load(folder: Path) -> str | None:
    """Return the text that record() wrote; None where there is none."""
    path = folder / FILE
    content = plain_json(path) if path.is_file() else None
    return content if isinstance(content, str) else None


def encode(correct: NDArray[np.bool_]) -> str:
    """Return booleans as text: their number and their bits in hexadecimal."""
    return f"{len(correct)}:{np.packbits(correct).tobytes().hex()}"


def decode(text: str) -> NDArray[np.float64]:
    """Return the booleans of encode() as 0 and 1."""
    count, _, bits = text.partition(":")
    bits = bits.partition(":")[0]  # a digest of the test data follows
    values = np.unpackbits(np.frombuffer(bytes.fromhex(bits), np.uint8))[: int(count)].astype(np.float64)
    if len(values) != int(count):
        raise ValueError(f"expected {count} bits, got {len(values)}")
    return values
