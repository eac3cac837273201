"""What drives the browser has an event loop, which must end with the module that uses it; needs no browser."""

import asyncio
from types import SimpleNamespace

import pytest

from tests.conftest import pytest_runtest_teardown

HERE, NEXT = SimpleNamespace(path=SimpleNamespace(name="a.py")), SimpleNamespace(path=SimpleNamespace(name="b.py"))


def torn_down(after):
    hook = pytest_runtest_teardown(HERE, after)
    next(hook)
    with pytest.raises(StopIteration):
        next(hook)


def test_a_module_that_leaves_an_event_loop_running_fails():
    """Issue 44.33: asyncio.run() of later modules of a worker failed."""

    async def running():
        torn_down(HERE)
        for after in (NEXT, None):
            with pytest.raises(pytest.fail.Exception, match="a.py leaves an event loop running"):
                torn_down(after)

    asyncio.run(running())
    torn_down(NEXT)


def test_playwright_s_loop_ends_with_it():
    """Issue 44.33: so the fixture of a module ends it."""
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright: make browser installs it")
    with driver.sync_playwright():
        assert asyncio.get_running_loop().is_running()
    asyncio.run(asyncio.sleep(0))
