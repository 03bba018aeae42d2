"""Generates api.md from the docstrings of the public names; the site shows these in full.

`python docs/make_api.py`; a test fails if the file is out of date, or if a name has no group.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path

import axe_nb

FILE = Path(__file__).with_name("api.md")

HEAD = """\
# Python names

Every public function and class of `axe_nb`, in one line each.
"""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Runs": (
        "run", "arun", "stream", "last", "load", "history", "replay", "RunResult", "Usage", "Step",
    ),
    "Agents": ("Agent", "define"),
    "Tools": ("tool", "ToolContext", "ToolError"),
    "Many runs": ("map", "grid", "Grid"),
    "Tests, recordings and files": ("expect", "cassette", "export"),
    "Script models": (
        "script", "script_server", "call", "Request", "Response", "ToolCall",
    ),
    "Connections": ("use_http_client",),
    "Errors": (
        "AxeError", "ConfigError", "ProviderError", "RunError", "CassetteMiss", "ExpectationError",
    ),
}  # fmt: skip
"""Heading → public names, in reading order."""

INTERNAL: Mapping[str, str] = {
    "Agent": "from_file, is_restricted, lacks_entries, own_tools, path, required, text, warnings",
    "Grid": "add, choices, column, has_grades, list_places, note, planned",
    "Request": "encoded, log, refused, server, system_ends",
    "Response": "describe_cut, echo, is_cut, is_paused, message, server_calls",
    "Step": "call_id, given, number, protocol, request, response, schema, whole",
    "ToolCall": "traits",
    "ToolContext": "above, allows_host, delegation, file_log, guard, limits, nest, sources, start",
    "Usage": "at_cost, counts, dollars, priced_tokens",
}
"""Class → its members that only axe_nb itself uses, which the site leaves out."""


ID = r"[A-Z]-[A-Z]?\d[\w.]*"
IDS = re.compile(rf" \({ID}(?:, {ID})*\)")
"""Ids of requirements, as docstrings have them for those who work on the code."""


def page() -> str:
    """The page for GitHub: the first sentence of each docstring."""
    parts = [
        HEAD,
        "The site (`python3 docs`) has each in full, and so has `?` in a notebook: `axe_nb.run?`.",
    ]
    for title, names in GROUPS.items():
        rows = [f"`axe_nb.{name}` | {summary(name)}" for name in names]
        parts.append("\n".join([f"## {title}", "", "name | meaning", "---|---", *rows]))
    parts.append("Next: [options, keys and commands](reference.md).")
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def summary(name: str) -> str:
    """The first paragraph of a docstring, in one line."""
    paragraph = (inspect.getdoc(getattr(axe_nb, name)) or "").split("\n\n")[0]
    return without_ids(" ".join(paragraph.split())).replace("|", "\\|")


def without_ids(text: str) -> str:
    """A docstring without the ids of requirements, which say nothing to a user."""
    return IDS.sub("", text)


def directives() -> str:
    """The page for the site: the same headings, with the docstrings in full."""
    parts = ["# Python names"]
    for title, names in GROUPS.items():
        lines = []
        for name in names:
            kind = "class" if inspect.isclass(getattr(axe_nb, name)) else "function"
            lines.append(f".. auto{kind}:: axe_nb.{name}")
            if kind == "class":
                lines.append("   :members:")
                if name in INTERNAL:
                    lines.append(f"   :exclude-members: {INTERNAL[name]}")
            lines.append("")
        parts.append("\n".join([f"## {title}", "", "```{eval-rst}", *lines, "```"]))
    return "\n\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8", newline="\n")
    print(f"wrote {FILE.name}")
