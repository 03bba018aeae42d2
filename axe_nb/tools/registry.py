"""Sources of tools, and the registry that looks a name up in all of them.

A source holds no connection and no process yet, so that nothing has to be opened or closed.
Source: D-20 (names, toolsets, aliases).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from axe_nb.text import nearest
from axe_nb.tools.tool import Tool

NO_SETS: Mapping[str, tuple[str, ...]] = {}


class ToolSource(Protocol):
    """A place that tools come from: the built-in ones, a session, one agent."""

    @property
    def names(self) -> Collection[str]:
        """Names of its tools, in the order in which they are listed."""

    @property
    def sets(self) -> Mapping[str, tuple[str, ...]]:
        """Other name → the tools that it stands for: several for a toolset, one for an alias."""

    def find(self, name: str) -> Tool | None:
        """The tool of exactly that name."""


@dataclass(frozen=True, slots=True)
class ToolModules:
    """Tools of a package, one or more in a module; a module is imported on first use.

    A module keeps its tools in a mapping `TOOLS`, by name.
    """

    package: str
    modules: Mapping[str, str]
    """Tool → its module."""
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> Collection[str]:
        return self.modules.keys()

    def find(self, name: str) -> Tool | None:
        module = self.modules.get(name)
        if module is None:
            return None
        tools: Mapping[str, Tool] = import_module(f"{self.package}.{module}").TOOLS
        return tools[name]


@dataclass(frozen=True, slots=True)
class ToolTable:
    """Tools that were made while the program runs; a later one of a name replaces the earlier."""

    tools: dict[str, Tool] = field(default_factory=dict)

    @property
    def names(self) -> Collection[str]:
        return self.tools.keys()

    @property
    def sets(self) -> Mapping[str, tuple[str, ...]]:
        return NO_SETS

    def find(self, name: str) -> Tool | None:
        return self.tools.get(name)

    def add(self, tool: Tool) -> None:
        """Makes the tool known by its name."""
        self.tools[tool.name] = tool

    def reset(self) -> None:
        """Forgets all tools."""
        self.tools.clear()


@dataclass(frozen=True, slots=True)
class Registry:
    """All tools that can be named; of two sources that have a name, the first counts."""

    sources: tuple[ToolSource, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tools."""
        return tuple(dict.fromkeys(name for source in self.sources for name in source.names))

    @property
    def known(self) -> frozenset[str]:
        """All names that may stand where a tool is named: tools, toolsets and aliases."""
        return frozenset(self.names).union(*(source.sets for source in self.sources))

    def expand(self, name: str) -> tuple[str, ...]:
        """The tools that a name stands for: those of a toolset, that of an alias, else itself."""
        if any(name in source.names for source in self.sources):
            return (name,)
        return next((s.sets[name] for s in self.sources if name in s.sets), (name,))

    def find(self, name: str) -> Tool | None:
        """The tool of that name or alias."""
        meant = self.expand(name)
        if len(meant) > 1:
            return None
        return next((tool for s in self.sources if (tool := s.find(meant[0]))), None)

    def nearest(self, name: str) -> str:
        """The known name that a mistyped one was meant to be; empty if none is near.

        Short names are easily alike by chance, so it must share a word or the first letter too.
        """
        words = set(name.split("_"))
        alike = [k for k in self.known if k[:1] == name[:1] or words & set(k.split("_"))]
        return nearest(name, sorted(alike))

    def __iter__(self) -> Iterator[Tool]:
        return (tool for name in self.names if (tool := self.find(name)))

    def with_tools(self, tools: Mapping[str, Tool]) -> Registry:
        """This registry with these tools before all others."""
        return Registry((ToolTable(dict(tools)), *self.sources)) if tools else self
