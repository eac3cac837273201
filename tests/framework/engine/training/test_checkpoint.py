"""Checkpoints that come from elsewhere: hostile, of another model, of another size, as safetensors."""

import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from ndformer.framework.encoding import build_encoding
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from tests.soak.tiny import config


class Hostile:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


@pytest.mark.parametrize("write", [lambda x, p: torch.save(x, p), lambda x, p: p.write_bytes(pickle.dumps(x))])
def test_a_malicious_pickle_runs_nothing_and_is_one_sentence(tmp_path, write):
    target = tmp_path / "pwned"
    write(dict(model=dict(), evil=Hostile(target)), tmp_path / "last.pth")
    with pytest.raises(DataError, match="not a checkpoint that can be read safely") as error:
        checkpoint.load(tmp_path / "last.pth")
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="not a checkpoint that can be read safely"):
        checkpoint.load_newest(tmp_path)
    assert not target.exists()


def test_weights_go_through_safetensors_with_what_the_tools_need(tmp_path):
    model = build_model(config())
    content = dict(
        model=model.state_dict(), classes=["a", "b", "c"], epoch=3, metrics=dict(accuracy=0.5), config="x = 1"
    )
    path = tmp_path / "weights.safetensors"
    checkpoint.export(path, content)
    found = checkpoint.load(path)
    assert found["classes"] == ["a", "b", "c"]
    assert found["epoch"] == 3
    other = build_model(config())
    checkpoint.load_weights(other, found, path)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="not a checkpoint that can be read safely"):
        checkpoint.load(path)
    with pytest.raises(DataError, match="exported as .safetensors"):
        checkpoint.export(tmp_path / "weights.pth", content)


class Holder(nn.Module):
    def __init__(self, reach, dims, **options):
        super().__init__()
        encoding = build_encoding(
            dict(type="RelativeBias", reach=reach, **options), dim=8, heads=2, position_dims=dims, depth=1
        )
        self.layer = encoding.layer(0, 1)


@pytest.mark.parametrize("dims, options", [(1, {}), (2, {}), (2, dict(joint=True))])
def test_position_tables_are_resized_on_request_alone(dims, options):
    small, large = Holder(2, dims, **options), Holder(4, dims, **options)
    content = dict(model=small.state_dict())
    with pytest.raises(DataError, match=r"layer.tables.0 \(2, \d+\) instead of .*tables over positions"):
        checkpoint.load_weights(large, content, "x.pth")
    checkpoint.load_weights(large, content, "x.pth", resize=True)
    for given, own in zip(small.state_dict().values(), large.state_dict().values()):
        axes = 2 if options else 1
        a, b = given.reshape(2, *[5] * axes), own.reshape(2, *[9] * axes)
        every = (slice(None), *[slice(None, None, 2)] * axes)
        torch.testing.assert_close(b[every], a)


def test_what_is_not_a_table_is_never_resized():
    model = nn.Linear(3, 2)
    with pytest.raises(DataError, match=r"weight \(2, 3\) instead of \(2, 4\)"):
        checkpoint.load_weights(nn.Linear(4, 2), dict(model=model.state_dict()), "x.pth", resize=True)
