"""The gain of one encoding over another, paired by test sample, with its interval and p-value.

gain = paired_gain({0: correct, 1: correct}, {0: correct, 1: correct})      by seed, a value for each test sample
gain.mean, gain.half, gain.p                                        the 95 % interval is mean +- half
holm([gain.p, ...])                                                 p-values of several comparisons, adjusted

Seeds and test samples are both drawn at random: an interval over seeds alone ignores that another test set would give
another mean. Runs of two encodings are independent, also those of the same seed, unless the seed draws their training
samples (`by_seed`): the means have the variance v1 / S1 + v2 / S2 over seeds (Welch 1947). To this comes s / n of the
test samples, where s is the variance of the mean difference over samples, less the part of the seeds in it. Student's t
has Welch's degrees of freedom of the seeds alone: with those of a total, which has the samples too (Satterthwaite),
three seeds that are alike by chance are taken for certainty. For the same reason the standard deviation of seeds is at
least one sample of the test set, the resolution of an accuracy. With a standard deviation pooled over all encodings of
a table (pool()), the degrees of freedom are those of all their seeds. Folds have other test samples each: there gains
have Student's interval over the folds alone (gain_over()).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.plain import plain_json
from ndformer.framework.quantity import Quantity
from ndformer.framework.system import atomic
from ndformer.lab.interval import Summary, p_value, student_t

K = TypeVar("K")
Runs = Mapping[Any, NDArray[Any]]  # by seed, a value for each test sample
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


@dataclass(frozen=True)
class Spread:
    """The variance of single runs over seeds, pooled over encodings."""

    variance: float
    freedom: int


def pool(values: Iterable[Mapping[Any, float]]) -> Spread:
    """Return the pooled variance of encodings whose runs vary alike, each with its values by seed."""
    runs = [np.array(list(row.values())) for row in values if len(row) > 1]
    freedom = sum(len(row) - 1 for row in runs)
    return Spread(float(sum(((row - row.mean()) ** 2).sum() for row in runs) / freedom), freedom)


def paired_gain(first: Runs, second: Runs, spread: Spread | None = None, by_seed: bool = False) -> PairedGain | None:
    """Return the gain of all seeds of one over those of the other; None with fewer than two, or other test samples.

    by_seed: the seeds of both draw the same training samples: it is the gain of the seeds that both have.
    """
    if not by_seed:
        return _contrast([(1, first), (-1, second)], spread)
    if len({array.shape for runs in (first, second) for array in runs.values()}) > 1:
        return None
    gains = {s: first[s].astype(np.float64) - second[s].astype(np.float64) for s in first if s in second}
    return _contrast([(1, gains)], None)


def interaction(first: tuple[Runs, Runs], second: tuple[Runs, Runs], spread: Spread | None = None) -> PairedGain | None:
    """Return the difference of two gains, paired by sample: how much of a lead depends on a setting.

    interaction((pape_center, sincos_center), (pape_mean, sincos_mean)) is the part of PaPE's lead over Sincos that a
    class token in the center has beyond the mean of the tokens.
    """
    return _contrast([(1, first[0]), (-1, first[1]), (-1, second[0]), (1, second[1])], spread)


def _contrast(groups: Sequence[tuple[int, Runs]], spread: Spread | None) -> PairedGain | None:
    """Return the sum of the groups' means, each with its sign."""
    arrays = [array for _, runs in groups for array in runs.values()]
    if min(len(runs) for _, runs in groups) < 2 or len({array.shape for array in arrays}) > 1:
        return None
    tables = [(sign, np.stack([a.astype(np.float64) for a in runs.values()])) for sign, runs in groups]  # (S, n)
    n = len(arrays[0])
    variance = lambda table: spread.variance if spread else max(table.mean(1).var(ddof=1), 1 / n**2)
    seeds = [float(variance(table)) / len(table) for _, table in tables]
    by_sample = sum(sign * table.mean(0) for sign, table in tables)  # (n,)
    of_seeds = sum((table - table.mean(1, keepdims=True)).var(0, ddof=1).sum() / len(table) for _, table in tables)
    samples = max(0.0, float(np.var(by_sample, ddof=1) - of_seeds / (n - 1)) / n)
    if spread:
        freedom = float(spread.freedom)
    else:
        freedom = sum(seeds) ** 2 / sum(v**2 / (len(table) - 1) for v, (_, table) in zip(seeds, tables))
    return PairedGain(float(np.mean(by_sample)), math.sqrt(sum(seeds) + samples), float(freedom))


def holm(p: Sequence[float], comparisons: int | None = None) -> list[float]:
    """Return p-values adjusted for several comparisons (Holm 1979), in the given order; by default, for these."""
    count = comparisons or len(p)
    order, adjusted, lower_bound = np.argsort(p), [0.0] * len(p), 0.0
    for rank, index in enumerate(order):
        lower_bound = max(lower_bound, min(1.0, (count - rank) * p[index]))
        adjusted[index] = lower_bound
    return adjusted


def gain_over(
    values: Mapping[Any, float],
    base: Mapping[Any, float],
    correct: Mapping[Any, str],
    base_correct: Mapping[Any, str],
    quantity: Quantity,
    spread: Spread | None = None,
    by_seed: bool = False,
) -> Summary | None:
    """Summarize the gain over a baseline; above 0 is better. None if the runs have no test samples or seeds in common.

    With the correct samples of all runs as text, it is paired_gain(); otherwise, and where each seed has a test set of
    its own (folds), it is paired by the keys, with Student's t over them; seeds of one fold are averaged first. Raise
    if a run and its base have different test data.
    """
    both = [key for key in values if key in base]
    _check_same_data(both, correct, base_correct)
    ours, theirs = (by_fold({key: runs[key] for key in both}) for runs in (values, base))
    by_keys = Summary.from_values([quantity.gain(ours[key], theirs[key]) for key in ours]) if both else None
    data = test_data(values, correct)
    if data is not None and data == test_data(base, base_correct):
        first, second = (
            {key: decode(texts[key]) for key in runs} for runs, texts in ((values, correct), (base, base_correct))
        )
        gain = paired_gain(first, second, spread, by_seed)
        if gain is not None:
            n = len(both) if by_seed else min(len(values), len(base))
            return Summary(n, gain.mean, by_keys.sd if by_keys else None, gain.half, gain.p)
    if by_keys is None or by_keys.half is None:
        return by_keys
    return _by_seeds(by_keys, list(ours.values()), list(theirs.values()))


def test_data(values: Mapping[Any, float], correct: Mapping[Any, str]) -> str | None:
    """Return the digest of the test data whose correct samples the values are the share of; None without such data."""
    if not values or any(key not in correct for key in values):
        return None
    if not all(math.isclose(decode(correct[key]).mean(), value, abs_tol=1e-9) for key, value in values.items()):
        return None  # of another metric
    digests = {_data(correct[key]) for key in values}
    return digests.pop() if len(digests) == 1 else None


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
        data = {_data(texts[key]) for texts in (correct, base_correct) if key in texts} - {""}
        if len(data) > 1:
            repeat = key if str(key).startswith("seed") else f"seed {key}"
            raise DataError(
                f"{repeat}: expected the same test data for an encoding and the baseline, got different data: their "
                "gain cannot be paired. Remove the older runs, and the same command trains them again"
            )


def by_fold(values: Mapping[Any, float]) -> dict[Any, float]:
    """Return the mean over the seeds of each fold, which have its data in common; values without folds as they are."""
    folds: dict[str, list[float]] = {}
    for key, value in values.items():
        folds.setdefault(str(key).partition(", fold ")[2], []).append(value)
    several = "" not in folds and len(folds) > 1
    return {fold: fmean(some) for fold, some in folds.items()} if several else dict(values)


def significant(gains: Mapping[K, Summary | None], comparisons: int | None = None) -> dict[K, int]:
    """Return the sign of each gain that differs from 0 by Holm's correction over all of them, and 0 for the others.

    `comparisons`: over so many instead, for gains that were chosen among them.
    """
    named = {name: gain for name, gain in gains.items() if gain is not None and gain.margin is not None}
    adjusted = holm([1.0 if gain.p is None else gain.p for gain in named.values()], comparisons)
    signs = {name: (1 if gain.mean > 0 else -1) * (p < ALPHA) for (name, gain), p in zip(named.items(), adjusted)}
    return {name: signs.get(name, 0) for name in gains}


def record(folder: Path, correct: NDArray[np.bool_] | None, fingerprint: Any = None) -> None:
    """Write which test samples a run has right, if its metric says so."""
    text = as_text(correct, fingerprint)
    if text is not None:
        atomic.write(folder / FILE, json.dumps(text) + "\n")


def as_text(correct: NDArray[np.bool_] | None, fingerprint: Any = None) -> str | None:
    """Return which test samples are right, with a digest of the test data; None if a metric does not say."""
    return None if correct is None else encode(correct) + digest(fingerprint)


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
    if not path.is_file():
        return None
    try:
        text = plain_json(path)
        decode(text)
    except (ValueError, AttributeError, TypeError):
        remedy = "Remove the folder, and the same command runs it again"
        raise DataError(f"{path} is not a file that a run writes. {remedy}") from None
    return text


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
