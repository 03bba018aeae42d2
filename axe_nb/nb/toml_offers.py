"""Tab completion in the TOML of `%%axe_agent`: tables, keys, and known values.

Source: product.md "Notebook" (Tab completes), "Agent files".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import Field, dataclass
from itertools import islice
from typing import Any, TypeAlias, get_args

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import Config
from axe_nb.agents.servers import TRANSPORTS, McpServer
from axe_nb.agents.tables import MODES, Ask
from axe_nb.conversion.toml_tables import nested_table, toml_fields
from axe_nb.errors import ConfigError
from axe_nb.nb import name_offers
from axe_nb.nb.toml_spot import Path, Spot, find_paths, find_spot, split_key
from axe_nb.text import quote
from axe_nb.tools.tool import Verdict

_VARIABLE = re.compile(r"\{\{\s*([^\W\d]\w*)\s*\}\}")
_OPEN_BRACES = re.compile(r"\{\{\s*(\w*)\Z")
"""Braces of a variable, as far as they are written."""

MOST = 200
"""Maximum number of variables of a system prompt that are offered."""


Offers: TypeAlias = tuple[str, list[str]]
"""The text before the cursor that is replaced, and the texts that may replace it."""


def list_toml_offers(above: str, below: str) -> Offers | None:
    """Returns the offers between two parts of the TOML; None if IPython may know better.

    Args:
        above: the text up to the cursor.
        below: the text behind it.
    """
    spot = find_spot(above)
    if spot is None:
        return None
    if spot.key is None:
        rest = below.partition("\n")[2]
        given = find_paths(above[: above.rfind("\n") + 1] + rest)
        keys = _list_tables(spot.table) if spot.is_header else _list_keys(spot.table, above + below)
        free = (key for key in keys if (*spot.table, *split_key(key)) not in given)
        return spot.word, [key for key in free if key.startswith(spot.word)]
    if spot.quote in ('"""', "'''") or (spot.quote and spot.key == ("system_prompt",)):
        return _list_variables(spot.word, above + below)
    values = _list_values((*spot.table, *spot.key))
    if values is None:
        return None
    return _offer_values(spot, values)


def _offer_values(spot: Spot, values: _Values) -> Offers:
    """Quotes the values, and puts them into a list, as far as that is not written."""
    left = [text for text in values.texts if text.startswith(spot.word) and text not in spot.given]
    if spot.quote or not values.are_texts:
        return spot.word, left
    texts = [quote(text) for text in left]
    if values.is_list and not spot.is_in_list:
        texts = [f"[{text}]" for text in texts]
    return spot.word, texts


def _list_variables(written: str, whole: str) -> Offers | None:
    """The variables of `[vars]`, within braces in a text."""
    found = _OPEN_BRACES.search(written)
    if found is None:
        return None
    names = sorted(path[1] for path in find_paths(whole) if path[:1] == ("vars",) and path[1:])
    return found[1], [name for name in names if name.startswith(found[1])]


def _find_fields(table: Path) -> list[Field[Any]]:
    """The keys of a table; empty if it does not belong to an agent, or takes any key."""
    if table[:1] == ("mcp_servers",):
        return toml_fields(McpServer) if len(table) == 2 else []
    at: type[Any] = Agent
    for name in table:
        field = next((field for field in toml_fields(at) if field.name == name), None)
        nested = nested_table(field) if field else None
        if nested is None:
            return []
        at = nested
    return toml_fields(at)


def _find_field(key: Path) -> Field[Any] | None:
    return next((field for field in _find_fields(key[:-1]) if field.name == key[-1]), None)


def _is_table(field: Field[Any]) -> bool:
    return nested_table(field) is not None or str(field.type).startswith("Mapping[")


def _list_tables(table: Path) -> Iterator[str]:
    """The tables below a table, as a header names them."""
    if table == ("mcp_servers",):
        yield from _list_servers()
    for field in _find_fields(table):
        if field.name == "mcp_servers":
            yield field.name
        elif _is_table(field):
            yield field.name
            yield from (f"{field.name}.{inner}" for inner in _list_tables((*table, field.name)))


def _list_keys(table: Path, whole: str) -> Iterable[str]:
    """The keys of a table, without those that are tables."""
    match table:
        case ("permissions",):
            return name_offers.list_tools()
        case ("vars",):
            return dict.fromkeys(found[1] for found in islice(_VARIABLE.finditer(whole), MOST))
        case ("output",):
            return ("schema", "type", "properties", "required", "description")
        case (name,) if (field := _find_field((name,))) and "keys" in field.metadata:
            return tuple(field.metadata["keys"])
    return [field.name for field in _find_fields(table) if not _is_table(field)]


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that a key may have."""

    texts: Iterable[str]
    are_texts: bool = True
    """If false, they are written without quotes."""
    is_list: bool = False


def _list_values(key: Path) -> _Values | None:
    """The known values of a key; None if it takes any, or a file."""
    match key:
        case ("model",):
            return _Values(name_offers.list_models())
        case ("tools",):
            return _Values(name_offers.list_tools(), is_list=True)
        case ("sub_agents",):
            return _Values(name_offers.list_agents(), is_list=True)
        case ("mcp_servers",):
            return _Values(_list_servers(), is_list=True)
        case ("mode",):
            return _Values(MODES)
        case ("sub_agents_config", "ask"):
            return _Values(get_args(Ask))
        case ("sandbox",) | ("mcp_servers", _, "sandbox"):
            return _Values(("auto", "off", "docker:"))
        case ("mcp_servers", _, "transport"):
            return _Values(TRANSPORTS)
        case ("permissions", _):
            return _Values(get_args(Verdict))
    field = _find_field(key)
    is_flag = field is not None and str(field.type).startswith("bool")
    return _Values(("true", "false"), are_texts=False) if is_flag else None


def _list_servers() -> list[str]:
    with suppress(ConfigError):
        return sorted(Config.load().mcp_servers)
    return []
