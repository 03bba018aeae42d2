"""Names of tools: which source has them, what else stands for them, which one was meant."""

from __future__ import annotations

import pytest

from axe_nb.engine.toolbox import REGISTRY
from axe_nb.tools.tool import Registry, ToolTable
from tests.engine.in_process import tool as harmless


async def nothing(_: object) -> str:
    return ""


def table(*names: str) -> ToolTable:
    return ToolTable({name: harmless(name, nothing) for name in names})


def renamed() -> ToolTable:
    """A source whose tools have other names too."""
    tools = {name: harmless(name, nothing) for name in ("sum", "mean")}
    return ToolTable({**tools}, {"average": ("mean",), "statistics": ("sum", "mean")})


def test_the_first_source_that_has_a_name_counts() -> None:
    first, second = table("a", "b"), table("b", "c")
    registry = Registry((first, second))
    assert registry.names == ("a", "b", "c")
    assert registry.find("b") is first.find("b")
    assert registry.find("c") is second.find("c")
    assert registry.find("d") is None
    assert registry.with_tools(second.tools).find("b") is second.find("b")


def test_a_source_may_have_aliases_and_toolsets() -> None:
    registry = Registry((table("a"), renamed()))
    assert registry.expand("statistics") == ("sum", "mean")
    assert registry.expand("average") == ("mean",)
    assert registry.expand("other") == ("other",)
    found = registry.find("average")
    assert found is not None
    assert found.name == "mean"
    assert registry.find("statistics") is None
    assert registry.known == {"a", "sum", "mean", "average", "statistics"}


def test_a_tool_comes_before_an_alias_of_the_same_name() -> None:
    registry = Registry((renamed(), own := table("average")))
    assert registry.expand("average") == ("average",)
    assert registry.find("average") is own.find("average")


@pytest.mark.req("D-27")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [("grpe", "grep"), ("list", "list_dir"), ("fetsch", "fetch"), ("sub_agent", "subagent"),
     ("serch_files", "search_files"), ("repr", ""), ("super", ""), ("delattr", ""),
     ("calculator", ""), ("my_function", "")],
)  # fmt: skip
def test_a_mistyped_name_suggests_only_what_can_have_been_meant(typed: str, meant: str) -> None:
    assert REGISTRY.nearest(typed) == meant
