#!/usr/bin/env python
"""Speed of the spiking-patch tokenizer: numpy, numba and torch against a compiled sequential loop.

    ndformer benchmarks/events                500,000 and 5,000,000 events of 304 x 240 pixels, threshold 256, 100 ms
    ndformer benchmarks/events --events 500000 --rounds 9

All variants run in turn in each round, on one thread. Times are medians of processor time. Finding the tokens and
numbering the cells of their events are measured separately.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ndformer.cli.program import new_parser, run
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.spikes.spiking import Rule, find_spikes
from ndformer.modalities.events.spikes.tokenizers import SpikingTokenizer
from ndformer.modalities.events.spikes.tokens import patches
from ndformer.tools.benchmarks.turns import in_turn

HEIGHT, WIDTH = 240, 304


def stream(count: int, seconds: float) -> Events:
    """Half of the events anywhere, half near things that move."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.integers(0, int(seconds * 1e6), count))
    x, y = rng.integers(0, WIDTH, count), rng.integers(0, HEIGHT, count)
    object_number, on_object = rng.integers(0, 12, count), rng.random(count) < 0.5
    phase = object_number + 2e-6 * t
    moving_x = WIDTH * (0.5 + 0.4 * np.sin(phase)) + rng.normal(0, 6, count)
    moving_y = HEIGHT * (0.5 + 0.4 * np.cos(1.7 * object_number + phase)) + rng.normal(0, 6, count)
    x, y = np.where(on_object, moving_x, x).clip(0, WIDTH - 1), np.where(on_object, moving_y, y).clip(0, HEIGHT - 1)
    return Events.from_arrays(x, y, t, rng.integers(0, 2, count), HEIGHT, WIDTH)


def sequential() -> Callable[..., Any]:
    """The rule as it is written, event by event, compiled."""
    from numba import njit

    @njit
    def loop(neuron, t, neurons, threshold, refractory):
        last, spiked = np.zeros(neurons, np.int64), np.zeros(neurons, np.bool_)
        potential, buffers = np.zeros(neurons, np.int64), np.empty((neurons, threshold), np.int64)
        trigger, members = np.empty(len(t) // threshold, np.int64), np.empty((len(t) // threshold, threshold), np.int64)
        spikes = 0
        for i in range(len(t)):
            k = neuron[i]
            if spiked[k] and t[i] - last[k] < refractory:
                continue
            buffers[k, potential[k]] = i
            potential[k] += 1
            if potential[k] >= threshold:
                trigger[spikes] = i
                for j in range(threshold):
                    members[spikes, j] = buffers[k, j]
                spikes += 1
                spiked[k], last[k], potential[k] = True, t[i], 0
        return trigger[:spikes], members[:spikes]

    return loop


def variants(neuron: np.ndarray, t: np.ndarray, neurons: int, rule: Rule) -> dict[str, Callable[[], Any]]:
    """Return the implementations; each returns the events that caused patches to spike."""
    from ndformer.modalities.events.spikes.spiking_numba import find_spikes_numba
    from ndformer.modalities.events.spikes.spiking_torch import find_spikes_torch

    loop, pair = sequential(), (torch.from_numpy(neuron.astype(np.int64)), torch.from_numpy(t))
    return {
        "sequential, compiled": lambda: loop(neuron, t, neurons, rule.threshold, rule.refractory)[0],
        "numba": lambda: find_spikes_numba(neuron, t, neurons, rule).trigger,
        "numpy": lambda: find_spikes(neuron, t, neurons, rule).trigger,
        "torch, CPU": lambda: find_spikes_torch(*pair, neurons, rule).trigger.numpy(),
    }


def table(count: int, seconds: float, rounds: int) -> list[str]:
    rule = Rule(256, 100_000)
    events, tokenizer = stream(count, seconds), SpikingTokenizer(rule)
    neuron, rows, columns = patches(events, tokenizer.patch)
    calls = variants(neuron, events.t, rows * columns, rule)
    triggers = {name: call() for name, call in calls.items()}  # this also compiles them
    first = triggers["sequential, compiled"]
    for name, trigger in triggers.items():
        if not np.array_equal(trigger, first):
            raise AssertionError(f"{name} finds other tokens")
    spikes = find_spikes(neuron, events.t, rows * columns, rule)
    calls |= {"cell ids": lambda: tokenizer.tokens(events, neuron, columns, spikes)}
    times = {name: statistics.median(values) for name, values in in_turn(calls, rounds, warm=0).items()}
    lines = [
        f"{count:,} events in {seconds:g} s, {len(first):,} tokens",
        "| | ms | M events/s | times the sequential loop's speed |",
    ]
    lines.append("|---|--:|--:|--:|")
    loop = times["sequential, compiled"]
    lines += [f"| {n} | {1e3 * s:.1f} | {count / s / 1e6:.0f} | {loop / s:.2f} |" for n, s in times.items()]
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[500_000, 5_000_000], help="how many, in turn")
    parser.add_argument("--rate", type=float, default=500_000, help="events a second (500000)")
    parser.add_argument("--rounds", type=int, default=15, help="(15)")
    args = parser.parse_args(arguments)
    if min(args.events) < 1000 or args.rate <= 0 or args.rounds < 1:
        raise DataError("--events is 1000 or more, --rate more than 0 and --rounds 1 or more")
    torch.set_num_threads(1)
    for count in args.events:
        print("\n".join(table(count, count / args.rate, args.rounds)), flush=True)


if __name__ == "__main__":
    run(main)
