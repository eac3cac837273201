"""A real Chromium, headless, for pages that are files."""

import shutil
from dataclasses import dataclass, field
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--enable-unsafe-swiftshader"]  # root may not have a sandbox; WebGL without a GPU


@dataclass
class Tab:
    """A page with what it said and asked for."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: Any) -> None:
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.errors.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda asked: self.requests.append(asked.url))
        self.page.goto(path.as_uri())

    def drawn(self) -> None:
        self.page.wait_for_selector("section[data-drawn]", timeout=60_000)

    @property
    def left(self) -> list[str]:
        """Requests for anything but the page itself, and what is inside it."""
        return [url for url in self.requests[1:] if not url.startswith("data:")]


@pytest.fixture(scope="module")  # its event loop runs until it ends: later modules could run none of their own
def chromium():
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright: make browser installs it")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here: apt install chromium")
    with driver.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    context = chromium.new_context(viewport=dict(width=1360, height=900))
    yield Tab(context.new_page())
    context.close()


@pytest.fixture
def phone(chromium):
    context = chromium.new_context(viewport=dict(width=390, height=844), has_touch=True, is_mobile=True)
    yield Tab(context.new_page())
    context.close()
