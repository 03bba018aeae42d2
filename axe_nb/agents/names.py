"""Checks and parses the names of agents, models, tools and hosts.

Source: B-2, B-12, D-50.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from axe_nb.conversion.toml_tables import WrongValue
from axe_nb.errors import ConfigError
from axe_nb.messages.model_table import suggest_model
from axe_nb.text import quote


def check_name(name: str) -> None:
    """Raises ConfigError if an agent name is blank or unprintable, or looks like a path (B-12)."""
    if not isinstance(name, str):
        raise ConfigError(f"an agent's name must be a string, not {type(name).__name__}")
    bad = any(part in name for part in ("/", "\\", "..", ":"))
    if bad or not name.strip() or not name.isprintable():
        raise ConfigError(
            f"invalid agent name {quote(name)}: expected a plain name without folders",
            hint="use --agents-dir for another folder",
        )


def check_tool_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ConfigError(
            f"{quote(name)} is not a valid tool name",
            hint="use at most 64 letters, digits, _ and -",
        )


def function_name(function: Any) -> str:
    """Returns a function's name, unwrapping partial objects. Raises ConfigError if it has none."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        kind = "a lambda" if name else f"an object of type {type(function).__name__}"
        step = 'give it a name: axe_nb.tool(name="…")(…), or write a def'
        raise ConfigError(f"{kind} has no name that a model could call", hint=step)
    return name


def parse_model(model: str) -> tuple[str, str]:
    """Splits PROVIDER/MODEL at the first slash (B-2). Raises ConfigError if a part is missing."""
    provider, slash, name = model.partition("/")
    if slash and provider.strip() and name.strip():
        return provider, name
    problem = "empty provider" if not provider.strip() else "empty model name"
    examples = f"{suggest_model('anthropic')}, {suggest_model('ollama')} or script/lead"
    raise ConfigError(
        f"invalid model format {quote(model)}: "
        f"{problem if slash else 'expected provider/model-name'}",
        hint=f"for example {examples}",
        exit_code=1,
    )


def own_tools(tools: object) -> dict[str, Any]:
    """Returns the entries of `tools` that are functions or Tool objects, keyed by tool name."""
    own: dict[str, Any] = {}
    for thing in tools if isinstance(tools, (list, tuple)) else ():
        if callable(thing) or is_tool(thing):
            name = name_of(thing)
            check_tool_name(name)
            if own.setdefault(name, thing) != thing:
                raise WrongValue(("tools",), f"contains two functions named {quote(name)}")
    return own


def name_of(thing: Any) -> str:
    made = getattr(thing, "__axe_tool__", thing)
    return str(made.name) if is_tool(made) else function_name(made)


def is_tool(thing: object) -> bool:
    return hasattr(thing, "fn") and isinstance(getattr(thing, "name", None), str)


LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
ANY = "*"


def is_allowed(host: str, allowed: Iterable[str]) -> bool:
    """True if a host matches a pattern in `allowed`; an empty host matches only `*`.

    `python.org` matches only that host; `*.python.org` matches its subdomains but not `python.org`.
    """
    host = fold_host(host)
    patterns = {fold_host(pattern) for pattern in allowed}
    above = (f"*.{host[at + 1 :]}" for at, char in enumerate(host) if char == "." and at)
    return ANY in patterns or (bool(host) and not patterns.isdisjoint((host, *above)))


def is_host_pattern(pattern: str) -> bool:
    """True for a valid host pattern: `*`, a host, an IP address, or `*.` followed by a host."""
    name = fold_host(pattern.strip().removeprefix("*."))
    if pattern == ANY or parse_address(name):
        return pattern == ANY or "*" not in pattern
    return len(name) <= 253 and all(map(LABEL.fullmatch, name.split(".")))


def fold_host(host: str) -> str:
    """Normalizes a host for comparison: lower-case ASCII, without a trailing dot or brackets."""
    folded = host.strip().rstrip(".").removeprefix("[").removesuffix("]").lower()
    if not folded.isascii():
        import idna

        star = "*." if folded.startswith("*.") else ""
        with suppress(idna.IDNAError):
            folded = star + idna.encode(folded.removeprefix("*."), uts46=True).decode()
    with suppress(ValueError):
        folded = str(ip_address(folded))
    return folded


def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    with suppress(ValueError):
        return ip_address(host)
    return None
