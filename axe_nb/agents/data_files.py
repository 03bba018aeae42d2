"""axe_nb's data files: a header line with kind and version, then JSON formatted for diffs.

A multi-line string is stored as `{"|": [lines]}`. Reading a file never executes code. Source: D-61.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from axe_nb.agents.files import expand_home, reason, write_whole
from axe_nb.agents.user_config import format_path
from axe_nb.errors import ConfigError
from axe_nb.paths import open_real_file
from axe_nb.text import INVISIBLE, one_line

T = TypeVar("T")

Kind = Literal["run", "cassette", "history", "grid", "runs"]

VERSIONS: Mapping[Kind, tuple[int, int]] = {
    "run": (2, 0), "cassette": (2, 0), "history": (5, 0), "grid": (3, 0), "runs": (2, 0),
}  # fmt: skip
"""Format versions (major, minor) in which files are written, keyed by kind of file.

Files with the same major and any minor version can be read."""

MAX_BYTES = 100_000_000
IN_PAGE = '<script type="text/plain" id="axe-run">', "</script>"
"""Tags around the run file in an exported page; no browser executes a script of this type."""
LINES = "|"
"""Key of an object that stands for a multi-line string; the value is the list of lines. If the
only key of another object consists of bars, that key is stored with one more bar."""

_UNSEEN = re.compile(rf"[\x7f-\x9f\u2028\u2029]|{INVISIBLE.pattern}")  # not shown by editors


def write_data(path: Path, kind: Kind, data: T, form: Callable[[T], str] | None = None) -> None:
    """Writes data to a file atomically; `form` converts the data to text, by default to JSON."""
    path = expand_home(path)
    try:
        text = f"{format_header(kind)}{(form or format_data)(data)}\n"
        is_new = not path.exists()
        if len(text.encode()) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        if not path.resolve().parent.is_dir():
            raise ValueError("its folder does not exist")
        if not is_new and not (path.is_file() and os.access(path, os.W_OK)):
            raise ValueError("it is read-only" if path.is_file() else "it is not a file")
    except (OSError, ValueError, RuntimeError) as error:
        raise _make_error("write", path, _explain(error)) from None
    write_whole(path, text, 0o600 if is_new else None)


def read_data(
    path: Path, kind: Kind, make: Callable[[Any], T], parse: Callable[[str], Any] | None = None
) -> T:
    """Reads a data file and returns the object that `make` creates from the file's data."""
    path = expand_home(path)
    text = ""
    try:
        with os.fdopen(open_real_file(Path(os.path.realpath(path))), "rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        text = content.decode("utf-8-sig")
        if text[:15].lower() == "<!doctype html>":
            text = text.partition(IN_PAGE[0])[2].partition(IN_PAGE[1])[0]
            if not text:
                raise ConfigError(
                    "the page contains no run", hint="export it again; over 20 MB, save it"
                )
        header, _, rest = text.partition("\n")
        check_header(kind, header)
        return make(parse(rest) if parse else json.loads(rest, object_hook=_join_lines))
    except (OSError, ValueError, RuntimeError, ConfigError) as error:
        problem, hint = _explain(error), getattr(error, "hint", "")
        if conflict := re.search(r"^<{7} ", text, re.MULTILINE):  # left by git
            line = text.count("\n", 0, conflict.end()) + 1
            problem = f"it has a merge conflict in line {line}"
            hint = "remove the conflict markers, and keep one side or both"
        raise _make_error("read", path, problem, hint) from None


def format_header(kind: Kind) -> str:
    return "axe_nb {} {}.{}\n".format(kind, *VERSIONS[kind])


def check_header(kind: Kind, line: str) -> None:
    """Raises ConfigError if a header line is malformed, or has the wrong kind or major version."""
    major, minor = VERSIONS[kind]
    found = re.fullmatch(r"axe_nb ([a-z]{1,20}) (\d{1,4})\.(\d{1,4})\s*", line)
    if not found:
        raise ConfigError(f"it does not begin with `axe_nb {kind} {major}.{minor}`")
    if found[1] != kind:
        raise ConfigError(f"it is a `{found[1]}` file, not a `{kind}` file")
    if int(found[2]) != major:
        problem = f"its version is {found[2]}.{found[3]}, expected {major}.x"
        is_newer = int(found[2]) > major
        hint = "update axe-nb" if is_newer else "create it again with this version of axe-nb"
        raise ConfigError(problem, hint=hint)


def _make_error(verb: str, path: Path, problem: str, hint: str = "") -> ConfigError:
    return ConfigError(f"cannot {verb} {one_line(format_path(path), 300)}: {problem}", hint=hint)


def _explain(error: Exception) -> str:
    match error:
        case RecursionError():
            return "it is nested too deeply"
        case UnicodeDecodeError():
            return f"not UTF-8 at byte {error.start}"
        case json.JSONDecodeError():
            return f"not valid JSON: {error.msg} at line {error.lineno + 1}, column {error.colno}"
    return reason(error)


def format_data(data: Any) -> str:
    """Formats JSON data as readable text; lone surrogates and invisible characters are escaped."""
    text = json.dumps(_split_lines(data), ensure_ascii=False, indent=1)
    if text.isascii():
        return text
    text = _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return text.encode("utf-8", "backslashreplace").decode()


def _split_lines(value: Any) -> Any:
    if isinstance(value, str) and "\n" in value:
        return {LINES: value.split("\n")}
    if isinstance(value, list):
        return list(map(_split_lines, value))
    if isinstance(value, dict):
        extra = LINES if _is_bars(value) else ""
        return {f"{extra}{key}": _split_lines(one) for key, one in value.items()}
    return value


def _is_bars(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and set(next(iter(value))) == {LINES}


def _join_lines(value: dict[str, Any]) -> Any:
    if not _is_bars(value):
        return value
    key, lines = next(iter(value.items()))
    if key != LINES:
        return {key[1:]: lines}
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise ValueError(f'"{LINES}" must be a list of strings')
    return "\n".join(lines)
