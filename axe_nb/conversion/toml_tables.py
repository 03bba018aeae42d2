"""Conversion of TOML tables to dataclasses and back, and editing of values in TOML text.

Errors contain the key, the line and a hint. Source: D-27, D-36, D-41, D-70, B-1.
"""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from axe_nb.errors import ConfigError
from axe_nb.text import MAX_SHOWN, list_choices, one_line, quote, suggestion

if TYPE_CHECKING:
    from tomlkit.items import AbstractTable
    from tomlkit.toml_document import TOMLDocument

T = TypeVar("T")

_OPENED = re.compile(r"""[^\n]*?=\s*(\[|"{3}|'{3})""")
"""Matches the beginning of a list or of a string of several lines."""

TOML_HINT = (
    'a line is key = value: strings in quotes, of several lines in """, backslashes in single '
    "quotes; true and false in lower case"
)
"""Hint for a syntax error from `tomllib`."""


def line_of(text: str, path: tuple[str, ...], entry: str = "", number: int = 0) -> int | None:
    """Returns the line, from 1, where the key `path` first occurs; None if not found.

    With `entry`, returns the line of that entry in the key's list. If `path` begins with an array
    of tables, `number` is the number of the table, from 1; 0 means any table.
    """
    table: tuple[str, ...] = ()
    tables = read_again = 0
    line, statement = 1, ""
    for last, more in enumerate(text.split("\n"), 1):
        opened = _OPENED.match(statement)  # the statement began in an earlier line
        statement += f"{more}\n"
        if opened and opened[1].replace("[", "]") not in more:
            continue
        try:
            parsed = tomllib.loads(statement)
        except (ValueError, RecursionError):  # the statement goes on in the next line
            read_again += len(statement)
            if read_again > 1_000_000:  # a list of many lists, made to take time
                return None
            continue
        if statement.lstrip().startswith("["):
            keys: list[str] = []
            node: Any = parsed
            while node:
                if isinstance(node, dict):
                    keys += [*node][:1]
                    node = node[keys[-1]]
                else:
                    node = node[0]
            table = tuple(keys)
            tables += statement.lstrip().startswith("[[") and table == path[:1]
            found = table[: len(path)] == path
        else:
            here: Any = parsed
            for key in path[len(table) :]:
                here = here.get(key) if isinstance(here, dict) else None
            found = path[: len(table)] == table != path and here is not None
        if found and number in (0, tables):
            written = re.search(rf"""["']{re.escape(entry)}["']""", statement) if entry else None
            return line + (statement.count("\n", 0, written.start()) if written else 0)
        line, statement = last + 1, ""
    return None


MAX_PARTS = 32
"""Maximum number of parts in a dotted key; for long keys, `tomllib` needs quadratic memory."""

_LONG_KEY = re.compile(
    r"""(?:^|[\[{,])[ \t]*+(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{MAX_PARTS}}}",
    re.MULTILINE,
)


def parse_toml(text: str) -> dict[str, Any]:
    """Parses TOML text. Raises ValueError if the text is invalid or nested too deeply."""
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.end()) + 1
        raise ValueError(f"a key with more than {MAX_PARTS} parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def update_text(text: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Edits TOML text so that its table `old` becomes `new`; keeps comments and other text."""
    import tomlkit

    document = tomlkit.parse(text.replace("\r\n", "\n"))
    _update(document, old, new)
    updated = tomlkit.dumps(document)
    return updated.replace("\n", "\r\n") if "\r\n" in text else updated


def _update(
    table: TOMLDocument | AbstractTable, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    for key in old.keys() - new.keys():
        table.pop(key, None)
    for key, value in new.items():
        before = old.get(key)
        if key in old and value == before and type(value) is type(before):
            continue
        written = table.get(key)
        if isinstance(value, Mapping) and isinstance(written, Mapping):
            known = before if isinstance(before, Mapping) else {}
            if known.keys() <= written.keys():
                _update(table[key], known, value)
                continue
        import tomli_w
        import tomlkit

        # in the same form as in a new file
        item = tomlkit.parse(tomli_w.dumps({key: value}, multiline_strings=True))
        table[key] = item[key]


class WrongValue(ConfigError):
    """Raised if a key has an invalid value, in a file or in code."""

    def __init__(self, key: tuple[str, ...], problem: str, *, hint: str = "") -> None:
        super().__init__(f"{'.'.join(key)} {problem}", hint=hint)
        self.key, self.problem = key, problem


def check_choice(key: tuple[str, ...], value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        word = quote(one_line(value, MAX_SHOWN))
        raise WrongValue(key, f"must be {list_choices(choices)}, not {word}")


@dataclass(frozen=True, slots=True)
class Source:
    """The text that a table comes from, used to locate errors."""

    text: str
    file: str = ""
    """File name to show in messages; empty if the text is not from a file."""

    def line(self, key: tuple[str, ...], entry: str = "") -> int | None:
        """Returns the line, from 1, of a key or of an entry in its list; None if not found."""
        return line_of(self.text, key, entry) if key else None

    def place(self, key: tuple[str, ...] = (), entry: str = "") -> str:
        line = self.line(key, entry)
        at = [f"in {self.file}" if self.file else "", f"line {line}" if line else ""]
        return ", ".join(filter(None, at))


def advise_key(key: str, cls: type, root: type) -> str:
    """Returns a hint for an unknown key; `cls` is the table's dataclass, `root` the file's."""
    known = [field.name for field in toml_fields(cls)]
    if near := suggestion(key, known):
        return near
    found = next((home for name, home in _list_homes(root) if name == key), None)
    if found is None:
        return f"known keys: {', '.join(known)}"
    return f"put it under [{'.'.join(found)}]" if found else "put it above the first [table]"


def _list_homes(cls: type, at: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields each key that a file can contain, with the path of the table that contains the key."""
    yield from ((field.name, at) for field in toml_fields(cls))
    for field in toml_fields(cls):
        home = (*at, field.name)
        yield from ((key, home) for key in field.metadata.get("keys", ()))
        if nested := nested_table(field):
            yield from _list_homes(nested, home)


def build(cls: type[T], table: Any, source: Source, at: tuple[str, ...] = (), **others: Any) -> T:
    """Builds the dataclass `cls` from the table at key `at`; `others` sets other fields.

    Raises ConfigError if a key is unknown, and WrongValue if a value is not a table or the
    dataclass rejects it.
    """
    check_keys(cls, table, source, at, cls)
    try:
        return cls(**table, **others)
    except WrongValue as error:
        raise WrongValue((*at, *error.key), error.problem, hint=error.hint) from None


def check_keys(cls: type, table: Any, source: Source, at: tuple[str, ...], root: type) -> None:
    if not isinstance(table, Mapping):
        raise WrongValue(at, "must be a table", hint=f"write its keys under a line [{at[-1]}]")
    fields = {field.name: field for field in toml_fields(cls)}
    for key, value in table.items():
        if key not in fields:
            line, dotted = source.line((*at, key)), quote(".".join((*at, str(key))))
            unknown = f"unknown key {dotted}" + (f" (line {line})" if line else "")
            error = ConfigError(unknown, hint=advise_key(str(key), cls, root))
            error.place = f"in {source.file}" if source.file else ""
            raise error
        if nested := nested_table(fields[key]):
            check_keys(nested, value, source, (*at, key), root)


def check_types(value: Any) -> None:
    """Converts a dataclass's lists to tuples and tables to dataclasses, and checks the types.

    Raises WrongValue if the value of a field has the wrong type.
    """
    for field in toml_fields(type(value)):
        own = getattr(value, field.name)
        if own is field.default:
            continue
        nested = nested_table(field)
        if nested and isinstance(own, Mapping):
            own = build(nested, own, Source(""), (field.name,))
        elif isinstance(own, list):
            own = tuple(own)
        object.__setattr__(value, field.name, own)
        if nested:
            called, is_right = "a table", isinstance(own, nested)
        else:
            called, fits = _KINDS[str(field.type)]
            is_right = fits(own)
        if not is_right:
            raise WrongValue((field.name,), f"must be {called}")


def make_table(value: Any) -> dict[str, Any]:
    """Converts a dataclass to a TOML table, leaving out fields that equal their defaults."""
    table: dict[str, Any] = {}
    for field in toml_fields(type(value)):
        own = getattr(value, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if own == default:
            continue
        if dataclasses.is_dataclass(own):
            table[field.name] = make_table(own)
        elif isinstance(own, Mapping):
            table[field.name] = dict(own)
        else:
            table[field.name] = list(own) if isinstance(own, tuple) else own
    return table


def toml_fields(cls: type) -> list[dataclasses.Field[Any]]:
    """Returns the fields of a dataclass that are keys of its TOML table, in order."""
    return [field for field in dataclasses.fields(cls) if field.metadata.get("toml", True)]


def nested_table(field: dataclasses.Field[Any]) -> type[Any] | None:
    """Returns the dataclass of a field that holds a nested table; None for other fields."""
    return type(field.default) if dataclasses.is_dataclass(field.default) else None


def is_number(value: object) -> bool:
    """True if a value is a finite number."""
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and abs(value) < 1e308  # type: ignore[arg-type]  # a number


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    """True if a value is an integer between `least` and `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and _are_texts(value)


def _is_table(value: object) -> bool:
    return isinstance(value, (dict, Mapping)) and _are_texts(value)


_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("str", "Mode", "Ask"), ("a string", lambda v: isinstance(v, str))),
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "int": ("a whole number", is_whole),
    "int | None": ("a whole number", lambda v: v is None or is_whole(v)),
    "float": ("a number", is_number),
    "tuple[str, ...]": ("a list of strings", _is_texts),
    "bool | tuple[str, ...]": (
        "true, false or a list of strings",
        lambda v: isinstance(v, bool) or _is_texts(v),
    ),
    "tuple[Any, ...] | Mapping[str, Any]": (
        "a list of strings, or tables",
        lambda v: isinstance(v, (list, tuple, Mapping)),
    ),
    "Mapping[str, Any]": ("a table", _is_table),
    "Mapping[str, str]": ("a table of strings", lambda v: _is_table(v) and _are_texts(v.values())),
}
"""Field annotation → name of the type in messages, and a function that checks values."""
