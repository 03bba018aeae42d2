"""One JupyterLab and one Chromium for all browser tests; a window of its own for each."""

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
    """A JupyterLab server."""
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
    visitor = browser.new_context(viewport={"width": 1280, "height": 900})
    yield visitor
    visitor.close()


@pytest.fixture
def lab(jupyter: Server, context: BrowserContext) -> Iterator[Lab]:
    """A window; at its end nothing must have reached out, popped up or broken."""
    from tests.browser.lab import Lab

    window = Lab(jupyter, context)
    yield window
    window.close()
    assert window.requests == []
    assert window.dialogs == []
    assert window.errors == []
