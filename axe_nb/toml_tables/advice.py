"""The right form of a value of the wrong type, for error messages (D-27). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from axe_nb.redaction import is_secret_name
from axe_nb.text import quote

_NUMBER = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|secs?|seconds?)?", re.ASCII)


def advise_value(key: str, wanted: str, value: object) -> str:
    """Returns the right form of a value of the wrong type; empty if the message is enough."""
    is_secret = is_secret_key(key)
    match wanted, value:
        case "a list of strings", str() if not is_secret:
            return f"write {key} = [{', '.join(map(quote, _split_items(key, value)))}]"
        case "a list of strings", _ if key == "sub_agents":
            return "list agent names; axe_nb.define(agent) registers an Agent under its name"
        case "a list of strings", _:
            return f'for example {key} = ["…"]'
        case "a string", bool() | int() | float():
            return f'put it in quotes: {key} = "{"…" if is_secret else value}"'
        case "a whole number" | "a number", str():
            return _advise_number(key, value.strip(), has_fractions=wanted == "a number")
        case "true or false", str():
            word = value.strip().lower()
            is_exact = word in ("true", "false")
            return f"write {key} = {word if is_exact else f'true or {key} = false'}"
        case "a table of strings", Mapping() if key == "permissions":
            return 'write a tool and allow, ask or deny in each line, as in write_file = "allow"'
        case "a table of strings", _:
            return f'write a table, as in {key} = {{name = "…"}}'
        case "a table", _:
            return advise_table(key)
    return ""


def is_secret_key(key: str) -> bool:
    """True if the value of a key may be a secret; counts of tokens are none."""
    return is_secret_name(key.removesuffix("tokens"))


def advise_table(key: str) -> str:
    """Returns the right form of a table."""
    also = "; axe_nb.run(…, output=…) also takes types" if key == "output" else ""
    return f"write its keys under a line [{key}]; in Python, pass a dict{also}"


def _split_items(key: str, text: str) -> list[str]:
    """Splits a string that was meant as a list; a path may contain spaces."""
    items = [item.strip() for item in text.split(",")]
    if key != "files":
        items = [word for item in items for word in item.split()]
    return [item for item in items if item] or [text]


def _advise_number(key: str, text: str, *, has_fractions: bool) -> str:
    unit = ", in seconds" if key == "timeout" else ""
    found = _NUMBER.fullmatch(text)
    is_plain = found and (unit or not found["unit"]) and (has_fractions or "." not in text)
    if found and is_plain:
        return f"write {key} = {found['number']}{unit}"
    return f"write {key} as digits, without quotes or a unit{unit}"
