"""The names of the built-in tools, what they take, and how they fail."""

from __future__ import annotations

import subprocess
import sys

import pytest

from axe_nb.engine.toolbox import BUILT_IN
from axe_nb.text import nearest
from axe_nb.tools.python_tool import make_tool
from axe_nb.tools.tool import Registry, ToolTable
from tests.calls import tool

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
    own = make_tool(lambda: "", "user", "terminal")
    registry = Registry((ToolTable({"terminal": own}), *BUILT_IN.sources))
    assert registry.expand("terminal") == ("terminal",), "a tool comes before an alias"
    assert registry.find("terminal") is own


@pytest.mark.req("D-27")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [("grpe", "grep"), ("list", "list_dir"), ("fetsch", "fetch"), ("sub_agent", "subagent"),
     ("serch_files", "search_files"), ("super", ""), ("delattr", ""),
     ("calculator", ""), ("my_function", "")],
)  # fmt: skip
def test_a_mistyped_name_suggests_only_what_can_have_been_meant(typed: str, meant: str) -> None:
    assert nearest(typed, sorted(BUILT_IN.known)) == meant


def test_a_tool_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys; from axe_nb.engine.toolbox import REGISTRY;"
        "late = {'axe_nb.builtin.web', 'axe_nb.builtin.files', 'regex', 'justhtml', 'httpx'};"
        "assert not late & set(sys.modules), late & set(sys.modules);"
        "REGISTRY.find('read_file'); REGISTRY.find('grep'); REGISTRY.find('fetch');"
        "assert not {'regex', 'justhtml', 'httpx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
