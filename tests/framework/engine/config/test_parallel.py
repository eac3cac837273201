"""The settings of training on several processes."""

from typing import Any

import pytest

from ndformer.framework.engine.config.load import check, load
from ndformer.framework.engine.training.parallel import Parallel
from ndformer.framework.errors import ConfigError, DataError
from tests.framework.engine.conftest import CIFAR


def check_settings(settings: dict[str, Any]) -> None:
    cfg = load(CIFAR)
    cfg.train_cfg.update(settings)
    check(cfg)


@pytest.mark.parametrize(
    "settings, problem",
    [
        (dict(parallel="fdsp"), "train_cfg.parallel: takes 'ddp', 'fsdp' or dict"),
        (dict(parallel=dict(type="fsdp", shards=2)), "train_cfg.parallel.shards: nothing reads it"),
        (dict(recompute="all"), "train_cfg.recompute: takes 'none' or 'blocks', got 'all'"),
        (
            dict(parallel=dict(type="ddp", replicate=2, shard=-1)),
            "parallel: replicate: only for type='fsdp', got type='ddp'",
        ),
        (dict(parallel=dict(type="fsdp", shard=0)), "shard: expected -1 .all processes. or at least 1, got 0"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_settings(settings)


def test_ddp_takes_the_default_values_of_sharding() -> None:
    whole = dict(type="ddp", replicate=1, shard=-1, offload=False)
    check_settings(dict(parallel=whole))
    assert Parallel.from_config(dict(parallel=whole)) == Parallel()


def test_sizes_of_process_groups() -> None:
    assert Parallel("fsdp").sizes(8) == (1, 8)
    assert Parallel("fsdp", replicate=2).sizes(8) == (2, 4)
    assert Parallel("fsdp", replicate=2, shard=4).sizes(8) == (2, 4)
    for wrong in (Parallel("fsdp", replicate=3), Parallel("fsdp", shard=3), Parallel("fsdp", replicate=0)):
        with pytest.raises(DataError, match="expected replicate x shard = 8 processes"):
            wrong.sizes(8)
