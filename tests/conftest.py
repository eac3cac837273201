"""One thread per test process: pytest-xdist uses the cores, and small operations are no faster on more.

A module leaves no event loop running, with which asyncio.run() of the modules after it would fail."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
import torch

from ndformer.framework.system import malloc

torch.set_num_threads(1)
malloc.retain_freed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: Any, nextitem: Any) -> Generator[None, None, None]:
    yield
    if nextitem is None or nextitem.path != item.path:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        pytest.fail(f"{item.path.name} leaves an event loop running: end what runs it in a fixture of the module")
