"""One thread per test process: pytest-xdist uses the cores, and small operations are no faster on more.

Programs that tests start have several, which sleep while they wait, as those of the `ndformer` command do.

Runs draw no pictures unless a module is about them. A module leaves no event loop running, with which asyncio.run() of
the modules after it would fail."""

import asyncio
import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from ndformer.__main__ import WAITING
from ndformer.framework.evaluation.coco import views
from ndformer.framework.pictures import runs
from ndformer.framework.system import atomic, malloc
from tests.tiers import everyday

os.environ.update(WAITING)
torch.set_num_threads(1)
malloc.retain_freed()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every case of every test, slow tests included")
    parser.addoption("--rest", action="store_true", help="run only what is left out without --all (make test-all)")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off modules and test items, which live until the end: a tenth of the suite's time.

    For other objects it runs seldom.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    chosen = set(everyday(items)) ^ (set(items) if config.getoption("--rest") else set())
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


@pytest.fixture(scope="module", autouse=True)
def _pixels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Save curves and confusion matrices of runs as a pixel: drawing them takes three quarters of a small run.

    Modules with the mark `pictures` draw them.
    """
    if request.node.get_closest_marker("pictures"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "curves", _save_pixel)
        for module in (runs, views):
            patch.setattr(module, "confusion_matrix", _save_pixel)
        yield


def _save_pixel(path: Path, *_: object) -> None:
    with atomic.replacing(path) as half:
        Image.new("RGB", (1, 1)).save(half)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: Any, nextitem: Any) -> Generator[None, None, None]:
    yield
    if nextitem is None or nextitem.path != item.path:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        pytest.fail(f"{item.path.name} leaves an event loop running: end what runs it in a fixture of the module")
