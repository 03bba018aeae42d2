"""pytest plug-in that replays agents in tests from cassettes, without keys or network access.

The plug-in imports the rest of axe_nb only when a fixture is used, so that pytest starts quickly.
Source: D-68.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from axe_nb.recording.cassette import Cassette
    from axe_nb.recording.modes import Mode
    from axe_nb.scripting.rules import ScriptFunction

    Rules: TypeAlias = str | Sequence[Mapping[str, Any]]
    """TOML text with `[[rule]]` tables, or a list of such tables."""

    AxeScript: TypeAlias = Callable[[str, ScriptFunction | Rules], str]

MODES = ("live", "record", "replay", "auto")
"""Copy of the cassette modes in `recording.modes`, as importing them would slow pytest's start."""

PACKAGE = Path(__file__).parents[1]

_has_failed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("axe_nb", "axe_nb agents").addoption(
        "--axe-mode",
        choices=MODES,
        help="mode of cassettes that do not set one, including those of notebooks: replay never "
        "calls a model, auto calls it only for what is missing, record calls it for everything, "
        "live uses no cassette (default: replay)",
    )


def pytest_configure(config: pytest.Config) -> None:
    mode = config.getoption("axe_mode")
    if mode:  # for the kernels of nbval and nbmake too
        patch = pytest.MonkeyPatch()
        patch.setenv("AXE_CASSETTE_MODE", mode)
        config.add_cleanup(patch.undo)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Passes the cassette beside a notebook to the kernel that nbval or nbmake starts for it."""
    own = item.path.with_suffix(".axe")
    if item.path.suffix != ".ipynb" or "AXE_CASSETTE" in os.environ or not own.exists():
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AXE_CASSETTE", own.name)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Reports an axe_nb error at the line of the test, without axe_nb's own frames."""
    report = yield
    item.stash[_has_failed] = item.stash.get(_has_failed, False) or report.failed
    errors = sys.modules.get("axe_nb.errors")
    cassette = getattr(item, "funcargs", {}).get("axe_cassette")
    error = call.excinfo.value if call.excinfo else None
    if call.excinfo and errors and isinstance(error, errors.AxeError):
        root = item.config.rootpath
        own = call.excinfo.traceback.filter(
            lambda entry: (
                (path := Path(entry.path)).is_relative_to(root) and not path.is_relative_to(PACKAGE)
            )
        )
        if own and not item.config.getoption("fulltrace"):
            call.excinfo.traceback = own
            report.longrepr = call.excinfo.getrepr(style="short", chain=False)
    is_told = errors is not None and isinstance(error, errors.CassetteMiss)
    is_hidden = report.failed and report.when == "call" and not is_told
    if is_hidden and cassette is not None and cassette.missed:
        report.sections.append(("not in the cassette", _describe_misses(cassette)))
    return report


def _describe_misses(cassette: Cassette) -> str:
    return "\n".join(sorted({"\n".join(miss.lines()) for miss in cassette.missed}))


@pytest.fixture
def axe_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The cassette in use during a test: `cassettes/<module>/<test>.axe` beside the test's module.

    In the default mode, `replay`, a request that is not recorded fails the test.
    """
    import axe_nb

    # the name of the test, with its class and parameters, valid on any system
    full = ".".join(request.node.nodeid.split("::")[1:]) or request.node.name
    plain = full.removesuffix("]").replace("[", "-", 1)
    name = re.sub(r"[^\w.-]+", "-", plain)
    if name != plain or len(name) > 100:
        name = f"{name[:100]}-{hashlib.sha256(full.encode()).hexdigest()[:8]}"
    path = request.path.parent / "cassettes" / request.path.stem / f"{name}.axe"
    mode: Mode = request.config.getoption("axe_mode") or "replay"
    if mode in ("record", "auto"):
        path.parent.mkdir(parents=True, exist_ok=True)
    with axe_nb.cassette(path, mode) as cassette:
        cassette.shown = os.path.relpath(path, request.config.rootpath)
        if "tmp_path" in request.fixturenames:  # differs in each run
            cassette.folders[request.getfixturevalue("tmp_path")] = "⟨tmp_path⟩"
        test = shlex.quote(request.node.nodeid)
        cassette.how_to_record = f"record it with: pytest --axe-mode auto {test}"
        yield cassette
    if cassette.missed and not request.node.stash.get(_has_failed, False):
        pytest.fail(_describe_misses(cassette), pytrace=False)


@pytest.fixture
def axe_script(monkeypatch: pytest.MonkeyPatch) -> AxeScript:
    """Function `axe_script(name, model)` that registers a script model for a test.

    The model is a function, TOML with `[[rule]]` tables, or a list of such tables.
    """
    from axe_nb.scripting import rules

    def make(name: str, function_or_rules: ScriptFunction | Rules) -> str:
        rules.script(name)  # refuses names that are not plain
        model: Any = function_or_rules
        if not callable(model):
            if not isinstance(model, str):
                import tomli_w

                model = tomli_w.dumps({"rule": list(model)})
            model = rules.parse_script(model, f"the rules of {name}")
        monkeypatch.setitem(rules.functions, name, model)
        return f"script/{name}"

    return make
