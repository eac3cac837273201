"""Without a GPU, all of this folder is one skipped test with one line that says so."""

from pathlib import Path

import pytest
import torch

HERE = str(Path(__file__).parent)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    ours = [item for item in items if str(item.path).startswith(HERE)]
    if not ours:
        return
    ours[0].add_marker(pytest.mark.skip(reason=f"no GPU here, which the {len(ours)} tests of tests/gpu need"))
    others = set(ours[1:])
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=ours[1:])
