"""Spiking patches: every way of finding them gives what a loop over the events gives, cut anywhere."""

import importlib.util
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.spikes import tokenizers
from ndformer.modalities.events.spikes.spiking import Rule, find_spikes
from ndformer.modalities.events.spikes.spiking_numba import find_spikes_numba
from ndformer.modalities.events.spikes.spiking_torch import SpikingStreamOnDevice, find_spikes_torch
from ndformer.modalities.events.spikes.tokenizers import SpikingStream, SpikingTokenizer, WindowTokenizer
from ndformer.modalities.events.spikes.tokens import NONE, unpack

WAYS = [find_spikes]
if importlib.util.find_spec("numba"):
    WAYS.append(find_spikes_numba)
patch_way = lambda find: mock.patch.object(tokenizers, "fastest", return_value=find)
few = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def by_hand(neuron, t, rule):
    """[(event that fires, events of the buffer)] and the events left in buffers."""
    last, buffers, tokens = {}, {}, []
    for i, (k, time) in enumerate(zip(neuron.tolist(), t.tolist())):
        if k in last and time - last[k] < rule.refractory:
            continue
        buffer = buffers.setdefault(k, [])
        buffer.append(i)
        if len(buffer) == rule.threshold:
            tokens.append((i, list(buffer)))
            last[k] = time
            buffer.clear()
    return tokens, sorted(sum(buffers.values(), []))


RULES = st.builds(Rule, st.sampled_from([1, 2, 5, 30, 300]), st.sampled_from([0, 1, 700, 40_000]))
PATCHES, BINS, CUTS = st.sampled_from([1, 5, 8, 16]), st.sampled_from([1, 4, 10]), st.lists(st.floats(0, 1), max_size=6)


@st.composite
def streams(draw, most=1500):
    """Events of which many share their time."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    n, height, width = draw(st.integers(0, most)), draw(st.integers(1, 40)), draw(st.integers(1, 40))
    t = np.sort(rng.integers(0, draw(st.sampled_from([1, 50, 3000, 400_000])), n)) + draw(st.sampled_from([0, 1 << 40]))
    return Events.from_arrays(
        rng.integers(0, width, n), rng.integers(0, height, n), t, rng.integers(0, 2, n), height, width
    )


@few
@given(streams(), RULES, st.integers(1, 20))
def test_spikes_equal_a_loop_over_events(events, rule, neurons):
    neuron = (events.x.astype(np.uint16) * 7 + events.y) % np.uint16(neurons)
    tokens, rest = by_hand(neuron, events.t, rule)
    for find in WAYS:
        found = find(neuron, events.t, neurons, rule)
        assert found.trigger.tolist() == [fired for fired, _ in tokens]
        assert found.members.tolist() == [buffer for _, buffer in tokens]
        assert found.pending().tolist() == rest
    found = find_spikes_torch(torch.from_numpy(neuron.astype(np.int32)), torch.from_numpy(events.t), neurons, rule)
    assert found.trigger.tolist() == [fired for fired, _ in tokens]
    assert found.members.tolist() == [buffer for _, buffer in tokens]
    assert found.pending.tolist() == rest


@pytest.mark.parametrize("find", WAYS)
def test_the_refractory_time_is_in_microseconds(find):
    t = np.array([0, 0, 9, 10, 10, 10, 20, 20])
    found = find(np.zeros(len(t), np.uint16), t, 1, Rule(2, 10))
    assert [t[row].tolist() for row in found.members] == [[0, 0], [10, 10], [20, 20]]


def volume_by_hand(events, rule, patch, bins):
    """[(t, row, column, counts (2, bins, patch, patch))]"""
    columns = -(-events.width // patch)
    neuron = events.y.astype(int) // patch * columns + events.x // patch
    out = []
    for fired, buffer in by_hand(neuron, events.t, rule)[0]:
        counts = np.zeros((2, bins, patch, patch), int)
        for i in buffer:
            ago, b = int(events.t[fired] - events.t[i]), 0
            while b < bins - 1 and ago >= 1000 * 2**b:
                b += 1
            counts[events.p[i], b, events.y[i] % patch, events.x[i] % patch] += 1
        out.append((int(events.t[fired]), *divmod(int(neuron[fired]), columns), counts))
    return out


def dense(tokens, bins, patch):
    counts = np.zeros((len(tokens), tokens.volume), int)
    for row, cells in enumerate(tokens.cells):
        np.add.at(counts[row], cells[cells != NONE], 1)
    return counts.reshape(-1, 2, bins, patch, patch)


@few
@given(streams(600), RULES, PATCHES, BINS, CUTS)
def test_any_cut_of_the_stream_gives_the_tokens_of_the_whole(events, rule, patch, bins, cuts):
    wanted = volume_by_hand(events, rule, patch, bins)
    for find in WAYS:
        with patch_way(find):
            same_whole_and_cut(events, SpikingTokenizer(rule, patch, bins), cuts, wanted)


def same_whole_and_cut(events, tokenizer, cuts, wanted):
    whole = tokenizer(events)
    assert list(zip(whole.t.tolist(), whole.y.tolist(), whole.x.tolist())) == [token[:3] for token in wanted]
    for found, (*_, counts) in zip(dense(whole, tokenizer.bins, tokenizer.patch), wanted):
        assert np.array_equal(found, counts)

    stream = SpikingStream(tokenizer, events.height, events.width)
    edges = [0, *sorted(round(cut * len(events)) for cut in cuts), len(events)]
    parts = [stream.feed(events.take(slice(a, b))) for a, b in zip(edges, edges[1:])]
    for name in ("t", "y", "x"):
        assert np.concatenate([getattr(part, name) for part in parts]).tolist() == getattr(whole, name).tolist()
    rows = [row[row != NONE].tolist() for part in parts for row in part.cells]
    assert rows == [row[row != NONE].tolist() for row in whole.cells]


def tensors(events):
    return [torch.from_numpy(getattr(events, name).astype(np.int64)) for name in "xytp"]


@few
@given(streams(600), RULES, PATCHES, BINS, CUTS)
def test_tokens_of_torch_equal_those_of_numpy_whole_and_cut(events, rule, patch, bins, cuts):
    tokenizer = SpikingTokenizer(rule, patch, bins)
    start = int(events.t[0]) - 7 if len(events) else 0
    tokens = tokenizer(events)
    wanted = tokens.pack(tokens.t - start)
    edges = [0, *sorted(round(cut * len(events)) for cut in cuts), len(events)]
    for pieces in (edges, [0, len(events)]):
        stream = SpikingStreamOnDevice(tokenizer, events.height, events.width, start)
        found = [stream.feed(*tensors(events.take(slice(a, b)))) for a, b in zip(pieces, pieces[1:])]
        assert found[0].dtype == torch.int16
        assert torch.equal(torch.cat(found)[:, : wanted.shape[1]], wanted)


def test_polarities_of_one_and_minus_one_are_those_of_one_and_zero():
    """Events of polarity -1 were lost."""
    x, y, t, p = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 3], [1, 2, 3, 4], [1, 0, 1, 0]])
    tokens = [
        SpikingStreamOnDevice(SpikingTokenizer(Rule(2, 0)), 16, 16).feed(x, y, t, given) for given in (p, 2 * p - 1)
    ]
    assert len(tokens[0])
    assert torch.equal(*tokens)


def test_torch_refuses_what_numpy_refuses():
    stream = SpikingStreamOnDevice(SpikingTokenizer(Rule(2, 0)), 16, 16)
    stream.feed(*torch.tensor([[0], [0], [5], [0]]))
    with pytest.raises(ValueError, match="expected times >= 5, got 4: events must be in time order"):
        stream.feed(*torch.tensor([[0], [0], [4], [0]]))
    with pytest.raises(ValueError, match="outside of the sensor of 16 x 16"):
        stream.feed(*torch.tensor([[16], [0], [9], [0]]))


@pytest.mark.parametrize("find", WAYS)
def test_more_tokens_than_uint16_can_number(find):
    t = np.arange(140_000) // 3
    neuron = (np.arange(140_000) % 5).astype(np.uint16)
    found = find(neuron, t, 5, Rule(2, 0))
    assert len(found.trigger) == 70_000
    tokens, _ = by_hand(neuron, t, Rule(2, 0))
    assert found.trigger.tolist() == [fired for fired, _ in tokens]


@pytest.mark.parametrize("find", WAYS)
def test_unsorted_times_are_refused(find):
    with pytest.raises(ValueError, match=r"must be in time order.*\.ordered\(\)"):
        find(np.zeros(3, np.uint16), np.array([1, 3, 2]), 1, Rule(1, 0))
    with pytest.raises(ValueError, match="must be in time order"):
        find_spikes_torch(torch.zeros(3), torch.tensor([1, 3, 2]), 1, Rule(1, 0))


def test_a_stream_does_not_go_back_in_time():
    stream = SpikingStream(SpikingTokenizer(Rule(2, 0)), 16, 16)
    stream.feed(Events.from_arrays([0], [0], [5], [0], 16, 16))
    with pytest.raises(ValueError, match="expected times >= 5, the last one of the stream, got 4"):
        stream.feed(Events.from_arrays([0], [0], [4], [0], 16, 16))


def test_sorting_keeps_the_order_of_equal_times():
    events = Events.from_arrays([1, 2, 3, 4], [0] * 4, [5, 1, 5, 1], [0] * 4, 8, 8).ordered()
    assert events.x.tolist() == [2, 4, 1, 3]
    t = np.random.default_rng(0).integers(0, 9, 5000)
    events = Events.from_arrays(np.arange(5000), t, t, t % 2, 9, 5000).ordered()
    assert list(zip(events.t.tolist(), events.x.tolist())) == sorted(zip(t.tolist(), range(5000)))


def test_events_outside_the_sensor_are_refused():
    with pytest.raises(ValueError, match="outside of the sensor of 16 x 16"):
        SpikingTokenizer(Rule(1, 0))(Events.from_arrays([16], [0], [0], [0], 16, 16))


@pytest.mark.parametrize("options", [dict(threshold=0), dict(refractory=-1), dict(threshold=1 << 20)])
def test_rules_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="got"):
        Rule(**options)


@few
@given(streams(600), st.sampled_from([10, 700, 90_000]), PATCHES, BINS, st.integers(1, 3))
def test_windows_count_what_a_loop_counts(events, window, patch, bins, threshold):
    start = 0 if len(events) == 0 else int(events.t[0]) - 3
    tokens = WindowTokenizer(window, patch, bins, threshold)(events, start)
    wanted: dict = {}
    for x, y, t, p in zip(events.x.tolist(), events.y.tolist(), (events.t - start).tolist(), events.p.tolist()):
        counts = wanted.setdefault((t // window, y // patch, x // patch), np.zeros((2, bins, patch, patch), int))
        counts[p, t % window * bins // window, y % patch, x % patch] += 1
    wanted = {key: counts for key, counts in sorted(wanted.items()) if counts.sum() >= threshold}
    found = list(zip(((tokens.t - start) // window - 1).tolist(), tokens.y.tolist(), tokens.x.tolist()))
    assert found == list(wanted)
    for a, b in zip(dense(tokens, bins, patch), wanted.values()):
        assert np.array_equal(a, b)


def test_packing_is_lossless(make_events):
    events = make_events(5000, 48, 64, until=1 << 45)
    tokens = SpikingTokenizer(Rule(20, 0))(events)
    since, place, cells = unpack(tokens.pack(tokens.t - int(events.t[0])))
    assert np.array_equal(since.numpy(), tokens.t - events.t[0])
    assert np.array_equal(place.numpy(), np.stack([tokens.y, tokens.x], 1))
    assert np.array_equal(cells.numpy(), tokens.cells)
    assert tokens.cells.max() < tokens.volume
