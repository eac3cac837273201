"""Spiking patches of events that are on a GPU are those of the CPU."""

import numpy as np
import pytest
import torch

from ndformer.modalities.events.adapter import SpikingPatches
from ndformer.modalities.events.spikes.spiking import Rule
from ndformer.modalities.events.spikes.spiking_torch import SpikingStreamOnDevice
from ndformer.modalities.events.spikes.tokenizers import SpikingTokenizer
from tests.modalities.events.conftest import random_events


@pytest.mark.parametrize("rule", [Rule(256, 100_000), Rule(16, 0), Rule(1, 700)])
def test_tokens_are_those_of_the_cpu_and_stay_on_the_device(rule: Rule) -> None:
    events, tokenizer = random_events(200_000, 240, 304, until=1_000_000), SpikingTokenizer(rule)
    tokens = tokenizer(events)
    wanted = tokens.pack(tokens.t)
    columns = [torch.from_numpy(getattr(events, name).astype(np.int64)).cuda() for name in "xytp"]
    stream = SpikingStreamOnDevice(tokenizer, 240, 304)
    found = torch.cat([stream.feed(*piece) for piece in zip(*(column.split(30_001) for column in columns))])
    assert found.is_cuda
    assert torch.equal(found.cpu(), wanted)
    model = SpikingPatches(16)
    on_cpu = model([wanted[:500]]).features
    torch.testing.assert_close(model.cuda()([found[:500]]).features.cpu(), on_cpu, rtol=1e-4, atol=1e-4)
