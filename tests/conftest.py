"""One thread per test process: pytest-xdist uses the cores, and small operations are no faster on more.

A module leaves no event loop running, with which asyncio.run() of the modules after it would fail."""

import asyncio
import gc
from collections.abc import Generator
from typing import Any

import pytest
import torch

from ndformer.framework.system import malloc
from tests.tiers import everyday

torch.set_num_threads(1)
malloc.retain_freed()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every case of every test, slow tests included")
    parser.addoption("--rest", action="store_true", help="run only what is left out without --all (make test-all)")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off modules and test items, which live until the end: a tenth of the suite's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    chosen = set(everyday(items)) ^ (set(items) if config.getoption("--rest") else set())
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: Any, nextitem: Any) -> Generator[None, None, None]:
    yield
    if nextitem is None or nextitem.path != item.path:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        pytest.fail(f"{item.path.name} leaves an event loop running: end what runs it in a fixture of the module")
