"""What every test may rely on: none of the person's settings, no network, two kernel lines."""

from __future__ import annotations

import gc
import io
import ipaddress
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import copy
from pathlib import Path
from typing import Any, NoReturn

import pytest

from axe_nb import secrets
from axe_nb.agents.trust import remember_trust
from axe_nb.session.session import session
from tests import bootstrap, order
from tests.providers import sdk

pytest_plugins = ["pytester"]

CHROMIUM = next(filter(None, map(shutil.which, bootstrap.CHROMIUM)), None)
KERNELS = {
    "ipykernel7": Path(sys.executable),
    "ipykernel6": bootstrap.interpreter(bootstrap.OLDER_KERNEL),
}


def only_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuses to look up or connect to another machine, in whatever test or library (A-T2)."""
    match event, arguments:
        case "socket.connect", (_, (str(host), *_)):
            allowed = host == "localhost" or is_loopback(host)
        case "socket.getaddrinfo" | "socket.gethostbyname", (str(host), *_):
            allowed = host in ("", "localhost") or is_number(host)
        case _:  # a local socket, or no network at all
            return
    if not allowed:
        raise RuntimeError(f"a test tried to reach {host!r}: tests may use loopback only")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_number(host: str) -> bool:
    """Whether `host` is an address in any notation, so that no name server is asked."""
    try:
        return ":" in host or bool(socket.inet_aton(host))
    except OSError:
        return False


sys.addaudithook(only_loopback)

# a shell starts background jobs with Ctrl-C ignored, and what they start would ignore it too
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Takes away keys, proxies and settings of the person, for the kernels that tests start too."""
    home = tmp_path_factory.mktemp("home")
    kept = bootstrap.without_settings(os.environ, home)
    kept["PYTHONPATH"] = str(bootstrap.ROOT)  # kernels and commands run this checkout too
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - kept.keys():
            patch.delenv(name)
        for name in kept:
            patch.setenv(name, kept[name])
        yield


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After each test the environment variables and the current folder are as before it."""
    before, folder = variables(), Path.cwd()
    yield
    assert variables() == before
    assert Path.cwd() == folder


def variables() -> dict[str, str]:
    """The environment without pytest's own note of what is running."""
    return {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}


@pytest.fixture(autouse=True)
def own_config(nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a config folder of its own, `$XDG_CONFIG_HOME/axe`, that does not exist yet.

    No request is sent again unless a test wants it: most failures are meant, and waits take long.
    """
    monkeypatch.setenv("AXE_NB_RETRIES", "0")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def own_session() -> Iterator[None]:
    """What a test defines, agents, models, tools and conversations, is gone after it.

    So are the keys that it used, which would be removed from the texts of later tests.
    """
    tables = [t for t in (*vars(session).values(), session.tools.tools) if isinstance(t, dict)]
    before = [table.copy() for table in tables]
    last, budget, passed = session.last, copy(session.budget), secrets._passed.copy()
    budget.unpriced = budget.unpriced.copy()
    yield
    session.last, session.budget = last, budget
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)
    secrets._passed.clear()
    secrets._passed.update(passed)


@pytest.fixture(autouse=True)
def every_body_is_one_that_the_sdks_take(request: pytest.FixtureRequest) -> Iterator[None]:
    """Holds each request that a test sends to a model's server against the SDKs' own types."""
    with nullcontext() if request.node.get_closest_marker("any_body") else sdk.watching():
        yield


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with `axe/agents`, which is the current folder, and trusted."""
    folder = tmp_path / "project"
    (folder / "axe" / "agents").mkdir(parents=True)
    remember_trust(os.path.realpath(folder))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Sets what is piped into a command line that runs in process; nothing, until it is called."""

    def pipe(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))

    pipe(b"")
    return pipe


@pytest.fixture(params=KERNELS)
def kernel_python(request: pytest.FixtureRequest) -> Path:
    """The Python whose kernel a test is to start, for each line of ipykernel."""
    python = KERNELS[request.param]
    if not python.exists():
        folder = python.parent.parent.name
        not_run(f"{request.param}: {folder} is not there; `python3 tests` makes it")
    return python


@pytest.fixture(scope="session")
def chromium() -> str | None:
    """The path of Chromium, for tests marked `browser`."""
    return CHROMIUM


def pytest_collection() -> None:
    gc.disable()  # whatever is collected stays to the end


def pytest_collection_finish() -> None:
    """Keeps the thousands of tests out of each garbage collection, a third of a worker's time."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        order.long_first(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> order.ByFile:
    return order.ByFile(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser") and CHROMIUM is None:
        not_run("there is no chromium (Debian: sudo apt-get install chromium)")


def not_run(reason: str) -> NoReturn:
    """Ends a test that cannot run here; where everything has to run, as a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"not run: {reason}", pytrace=False)
    pytest.skip(f"not run: {reason}")
