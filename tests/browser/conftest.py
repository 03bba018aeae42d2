"""One JupyterLab, one Chromium and one window for all browser tests; what is open is closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

    from tests.browser.lab import Lab, Server

# playwright is imported late: without chromium these tests are named as not run


@pytest.fixture(scope="package")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from tests.browser.lab import server

    with server(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    """A Chromium; its loop ends with this package, so that later tests may have their own."""
    from tests.browser.lab import started

    with started(chromium) as running:
        yield running


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A visitor, whose browser has loaded JupyterLab's own files before."""
    from tests.browser.lab import SIZE

    visitor = browser.new_context(viewport=SIZE)
    yield visitor
    visitor.close()


@pytest.fixture(scope="package")
def windows() -> list[Lab]:
    """The window that the next test may go on with, if there is one."""
    return []


@pytest.fixture
def lab(jupyter: Server, context: BrowserContext, windows: list[Lab]) -> Iterator[Lab]:
    """A window with nothing open; loading JupyterLab takes most of the time of a test."""
    from tests.browser.lab import Lab

    window = windows.pop() if windows else Lab(jupyter, context)
    yield window
    try:
        window.tidy()
    except Exception:
        window.close()  # it is in some state of a failed test; the next test has a new one
        raise
    # nothing must have reached out, popped up or broken
    assert (window.requests, window.dialogs, window.errors) == ([], [], [])
    windows.append(window)
