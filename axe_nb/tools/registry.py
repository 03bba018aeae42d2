"""Sources of tools, and the registry that looks a name up in all of them.

A source holds no connection and no process yet, so that nothing has to be opened or closed.
Source: D-20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from axe_nb.text import nearest
from axe_nb.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class ToolTable:
    """A source of tools: the built-in ones, a session or one agent."""

    tools: dict[str, Tool | str] = field(default_factory=dict)
    """Name → tool, or the module with the tool in its `TOOLS`, imported on first use."""
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Toolset or alias → the tools that it expands to."""

    def find(self, name: str) -> Tool | None:
        """Returns the tool with exactly this name."""
        found = self.tools.get(name)
        if isinstance(found, str):
            tools: Mapping[str, Tool] = import_module(found).TOOLS
            return tools[name]
        return found


@dataclass(frozen=True, slots=True)
class Registry:
    """All known tools; if two sources share a name, the first one wins."""

    sources: tuple[ToolTable, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tools."""
        return tuple(dict.fromkeys(name for source in self.sources for name in source.tools))

    @property
    def toolsets(self) -> tuple[str, ...]:
        """Names of toolsets."""
        sets = (item for source in self.sources for item in source.sets.items())
        return tuple(name for name, tools in sets if len(tools) > 1)

    @property
    def known(self) -> frozenset[str]:
        """Names of all tools, toolsets and aliases."""
        return frozenset(self.names).union(*(source.sets for source in self.sources))

    def expand(self, name: str) -> tuple[str, ...]:
        """Expands a toolset or alias to its tools; returns any other name unchanged."""
        sets = (source.sets[name] for source in self.sources if name in source.sets)
        return (name,) if name in self.names else next(sets, (name,))

    def find(self, name: str) -> Tool | None:
        """Returns the tool with this name or alias."""
        name, *others = self.expand(name)
        found = (source.find(name) for source in self.sources if name in source.tools)
        return None if others else next(found, None)

    def nearest(self, name: str) -> str:
        """Returns the known name closest to a mistyped one; empty if none is close.

        Short names are often similar by chance, so it must also share a word or the first letter.
        """
        words = set(name.split("_"))
        alike = [k for k in self.known if k[:1] == name[:1] or words & set(k.split("_"))]
        return nearest(name, sorted(alike))

    def __iter__(self) -> Iterator[Tool]:
        return (tool for name in self.names if (tool := self.find(name)))

    def with_tools(self, tools: Mapping[str, Tool]) -> Registry:
        """Returns a registry in which these tools come before all others."""
        return Registry((ToolTable({**tools}), *self.sources)) if tools else self
