"""The names of the built-in tools, what they take, and how they fail."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.engine.toolbox import BUILT_IN
from axe_nb.tools.tool import ToolError
from tests.calls import run, tool

TOOLS = {
    "read_file": (["path"], ["offset", "limit"], "read"), "list_dir": ([], ["path"], "read"),
    "find_files": (["pattern"], ["path"], "read"),
    "grep": (["pattern"], ["path", "glob", "context"], "read"),
    "write_file": (["path", "content"], [], "write"),
    "edit_file": (["path", "old_text", "new_text"], ["replace_all"], "write"),
    "run_command": (["command"], ["timeout"], "write"), "fetch": (["url"], [], "network"),
}  # fmt: skip
"""Name → required and optional parameters, effect."""


@pytest.mark.req("D-19", "D-20")
@pytest.mark.parametrize("name", TOOLS)
def test_names_parameters_and_effects(name: str) -> None:
    required, optional, effect = TOOLS[name]
    found = tool(name)
    assert (found.name, found.effect) == (name, effect)
    assert list(found.parameters) == required + optional
    assert [p for p, spec in found.parameters.items() if spec.required] == required
    assert all(spec.description and spec.type for spec in found.parameters.values())
    assert found.description


@pytest.mark.req("D-20")
def test_toolsets_and_aliases() -> None:
    readonly = ("read_file", "list_dir", "find_files")
    assert BUILT_IN.expand("file_ops_readonly") == readonly
    assert BUILT_IN.expand("file_ops") == (*readonly, "write_file", "edit_file")
    aliases = {"search_files": "grep", "terminal": "run_command", "url_fetch": "fetch"}
    for alias, name in {**aliases, "list_directory": "list_dir"}.items():
        assert BUILT_IN.expand(alias) == (name,)
        assert BUILT_IN.find(alias) is BUILT_IN.find(name)
    assert BUILT_IN.expand("my_own") == ("my_own",)
    assert BUILT_IN.find("my_own") is None
    assert BUILT_IN.find("file_ops") is None


def test_a_tool_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys; from axe_nb.engine.toolbox import REGISTRY;"
        "late = {'axe_nb.builtin.web', 'axe_nb.builtin.files', 'regex', 'justhtml', 'httpx'};"
        "assert not late & set(sys.modules), late & set(sys.modules);"
        "REGISTRY.find('read_file'); REGISTRY.find('grep'); REGISTRY.find('fetch');"
        "assert not {'regex', 'justhtml', 'httpx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
PATHS = st.text("ab./~\\ \0", max_size=10)


@pytest.mark.req("X-30")
@pytest.mark.parametrize(
    "name", ["read_file", "list_dir", "find_files", "grep", "write_file", "edit_file"]
)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_whatever_the_arguments_there_is_a_text_or_an_error_for_the_model(
    name: str, data: st.DataObject
) -> None:
    known = st.sampled_from([*tool(name).parameters, "other"])
    arguments: dict[str, Any] = data.draw(st.dictionaries(known, ANYTHING | PATHS))
    if data.draw(st.booleans()):
        arguments = {"path": "a.txt", "pattern": "a", "content": "b", **arguments}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        work.mkdir()
        (work / "a.txt").write_text("a\n")
        try:
            text = run(tool(name), work, **arguments)
        except ToolError as error:
            text = str(error)
        assert isinstance(text, str)
        assert [path.name for path in Path(folder).iterdir()] == ["work"]
