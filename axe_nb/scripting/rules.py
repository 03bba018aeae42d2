"""Finds scripts by name: functions of this process, or TOML files with a list of rules.

The first rule that matches a request gives the answer. No state is kept between requests, so that
parallel runs stay deterministic. Source: D-27, D-36.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from axe_nb.agents.files import display_path, expand_home, read_text, reason
from axe_nb.agents.user_config import config_dir
from axe_nb.conversion.jsonable import change_texts
from axe_nb.conversion.patterns import compile_pattern
from axe_nb.conversion.toml_tables import TOML_HINT, is_number, is_whole, line_of, parse_toml
from axe_nb.errors import ConfigError, ProviderError
from axe_nb.messages import Request, Response, ToolCall, Usage, dump
from axe_nb.text import cut_chars, nearest, one_line, quote

if TYPE_CHECKING:
    import regex

MAX_SECONDS = 1.0
FAULTS = ("timeout", "refused", "cut")  # no answer, a closed connection, a stream without its end
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure that a script model simulates, in place of an answer or in the middle of it."""

    message: str
    """Simulated error message; if `status` is 0, one of `timeout`, `refused` and `cut`."""
    status: int = 0
    """HTTP status, 400 to 599; 0 if the failure is not an HTTP error."""

    def __post_init__(self) -> None:
        if not self.status and self.message not in FAULTS:
            known = ", ".join(FAULTS)
            raise ValueError(f"the message of a Fault without a status is one of {known}")


@dataclass(frozen=True, slots=True)
class Reply:
    response: Response = Response()
    fault: Fault | None = None
    """Simulated failure, after the text and calls of `response`; None on success."""
    delay: float = 0.0
    """Seconds that the answer takes; 0 with a virtual clock, which uses `response.seconds`."""
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A validated `[[rule]]` of a script file."""

    table: Mapping[str, Any]
    when: Mapping[str, Any]
    last: regex.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class Script:
    rules: tuple[Rule, ...]
    virtual: bool = False
    """If true, delays are reported in `Response.seconds` instead of awaited (D-36)."""
    stream: bool = False
    """Default value of `stream` for rules that do not set it."""

    def answer(self, name: str, request: Request) -> Reply:
        ends = time.thread_time() + MAX_SECONDS
        own = {"turn": request.turn, "agent": request.agent, "attempt": request.attempt}
        words = {
            "last": request.last,
            "turn": str(request.turn),
            "agent": request.agent,
            "results": "\n\n".join(result.content for result in request.results),
        }
        for number, rule in enumerate(self.rules, 1):
            if any(rule.when.get(key, value) != value for key, value in own.items()):
                continue
            if rule.last is None:
                return self._make_reply(rule, request, words)
            left = max(ends - time.thread_time(), 0.001)
            try:
                found = rule.last.search(request.last[:100_000], timeout=left)
            except TimeoutError:
                raise ProviderError(
                    "bad_request",
                    f"the regexes of script {quote(name)}, up to rule {number}, take longer than "
                    f"{MAX_SECONDS:g}s",
                    hint="use a simpler regex without nested repeats",
                ) from None
            if found:
                return self._make_reply(rule, request, {**words, **found.groupdict("")})
        start = quote(one_line(request.last, 60))
        raise ProviderError(
            "bad_request",
            f"no rule of script {quote(name)} matches turn {request.turn} with the message {start}",
            hint="add a final [[rule]] without `when`, which answers everything else",
        )

    def _make_reply(self, rule: Rule, request: Request, words: Mapping[str, str]) -> Reply:
        def fill_in(value: Any) -> Any:
            return change_texts(
                value, lambda text: _PLACE.sub(lambda m: words.get(m[1], m[0]), text)
            )

        table = rule.table
        delay = float(table.get("delay", 0))
        text = fill_in(table.get("text", ""))
        calls = tuple(
            ToolCall("", entry["tool"], fill_in(entry.get("arguments", {})))
            for entry in table.get("calls", ())
        )
        usage = Usage(**{**estimate_usage(request, text, calls), **table.get("usage", {})})
        seconds, delay = (delay, 0.0) if self.virtual else (0.0, delay)
        response = Response(text, calls, stop_reason(calls), usage, seconds=seconds)
        fails = "status" in table or "error" in table
        fault = Fault(table.get("error", ""), table.get("status", 0)) if fails else None
        return Reply(response, fault, delay, table.get("stream", self.stream))


def stop_reason(calls: tuple[ToolCall, ...]) -> str:
    """Returns the default stop reason of a script model, in OpenAI's terms (A-1.9)."""
    return "tool_calls" if calls else "stop"


def estimate_usage(request: Request, text: str, calls: tuple[ToolCall, ...]) -> dict[str, int]:
    """Estimates the tokens of a request and its answer from their numbers of characters.

    Counts only content that every protocol transmits, so that a script has the same usage when it
    is served over a socket.
    """
    sent = len(request.system) + sum(
        len(tool.name) + len(tool.description) + len(dump(tool.input_schema()).decode())
        for tool in request.tools
    )
    for message in request.messages:
        if message.tool_results:
            sent += sum(len(result.content) for result in message.tool_results)
        else:
            sent += len(message.content) + _count_chars(message.tool_calls)
    return {"input_tokens": sent // 4, "output_tokens": (len(text) + _count_chars(calls)) // 4}


def _count_chars(calls: tuple[ToolCall, ...]) -> int:
    return sum(len(call.name) + len(dump(dict(call.arguments)).decode()) for call in calls)


def parse_script(text: str, file: str) -> Script:
    try:
        table = parse_toml(text)
    except ValueError as error:
        hint = TOML_HINT
        raise ConfigError(f"failed to parse script {file}: {error}", hint=hint) from None
    place = _Place(text, file)
    place.check(table, TOP)
    if not table.get("rule"):
        raise place.error("no [[rule]] found", hint='add [[rule]] and, below it, text = "…"')
    rules = [
        _make_rule(rule, replace(place, rule=number))
        for number, rule in enumerate(table["rule"], 1)
    ]
    return Script(tuple(rules), table.get("clock") == "virtual", table.get("stream", False))


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


Shape: TypeAlias = Mapping[str, tuple[str, Callable[[Any], bool]]]
"""TOML key → the expected type in words, for messages, and a function that checks a value."""

_TEXT = ("a string", lambda v: isinstance(v, str))
_SWITCH = ("true or false", lambda v: isinstance(v, bool))
_TOKENS = ("a whole number, 0 or more", lambda v: is_whole(v, 0))

TOP: Shape = {
    "rule": ("a list of tables, each headed [[rule]]", _is_tables),
    "clock": ('"real" or "virtual"', lambda v: v in ("real", "virtual")),
    "stream": _SWITCH,
}
RULE: Shape = {
    "when": (
        "a regex, or a table of last, turn, attempt and agent",
        lambda v: isinstance(v, (str, dict)),
    ),
    "text": _TEXT,
    "calls": ("a list of { tool = …, arguments = … }", _is_tables),
    "usage": ("a table of input_tokens and output_tokens", lambda v: isinstance(v, dict)),
    "delay": ("a number of seconds, 0 or more", lambda v: is_number(v) and v >= 0),
    "stream": _SWITCH,
    "status": ("an HTTP status from 400 to 599", lambda v: is_whole(v, 400, 599)),
    "error": _TEXT,
}
WHEN: Shape = {
    "last": _TEXT,
    "turn": ("a whole number, 1 or more", lambda v: is_whole(v, 1)),
    "attempt": ("a whole number, 1 or more", lambda v: is_whole(v, 1)),
    "agent": _TEXT,
}
_CALL: Shape = {
    "tool": ("the name of a tool", lambda v: isinstance(v, str) and bool(v.strip())),
    "arguments": ("a table of JSON values", lambda v: isinstance(v, dict) and _is_json(v)),
}
_USAGE: Shape = {"input_tokens": _TOKENS, "output_tokens": _TOKENS}


@dataclass(frozen=True, slots=True)
class _Place:
    text: str
    file: str
    rule: int = 0
    """Number of the rule, from 1; 0 for the keys above the rules."""

    def check(self, table: Mapping[str, Any], shape: Shape, *at: str) -> None:
        for key, value in table.items():
            dotted = ".".join((*at, key))
            if key not in shape:
                near = nearest(key, shape)
                hint = f"did you mean {quote(near)}?" if near else f"known keys: {', '.join(shape)}"
                raise self.error(f"unknown key {quote(dotted)}", *at, key, hint=hint)
            called, fits = shape[key]
            if not fits(value):
                raise self.error(f"{dotted} must be {called}", *at, key)

    def error(self, message: str, *key: str, hint: str = "") -> ConfigError:
        path = ("rule", *key) if self.rule else key
        above = (path[:size] for size in range(len(path), 0, -1))
        lines = (line_of(self.text, one, number=self.rule) for one in above)
        line = next(filter(None, lines), None) or (self.rule and line_of(self.text, ("rule",)))
        at = f"{self.file}, line {line}" if line else self.file
        of = f"rule {self.rule}: " if self.rule else ""
        return ConfigError(f"{at}: {of}{message}", hint=hint)


def _make_rule(table: Mapping[str, Any], place: _Place) -> Rule:
    place.check(table, RULE)
    fails = [key for key in ("status", "error") if key in table]
    if "usage" in table and fails:
        raise place.error(f"usage and {fails[0]} cannot be combined", fails[0])
    if not fails and not {"text", "calls"} & table.keys():
        raise place.error("has no reply", hint="add text, calls, status or error")
    if fails == ["error"] and table["error"] not in FAULTS:
        named = ", ".join(FAULTS)
        raise place.error(f"error must be one of {named}, unless `status` is set", "error")
    when = table.get("when", {})
    when = {"last": when} if isinstance(when, str) else when
    place.check(when, WHEN, "when")
    place.check(table.get("usage", {}), _USAGE, "usage")
    for entry in table.get("calls", ()):
        place.check(entry, _CALL, "calls")
        if "tool" not in entry:
            raise place.error("each entry of `calls` needs a tool", "calls")
    last = None
    if "last" in when:
        try:
            last = compile_pattern(when["last"])
        except ConfigError as error:
            message = f"invalid regex {quote(cut_chars(when['last'], 100))}: {error}"
            raise place.error(message, "when", "last", hint=error.hint) from None
        if taken := {"last", "results", "turn", "agent"} & last.groupindex.keys():
            raise place.error(f"a group cannot be named {quote(min(taken))}", "when", "last")
    return Rule(table, when, last)


ScriptFunction: TypeAlias = Callable[[Request], Any]
"""Function that answers a request with text, tool calls, data, a Response or a Fault.

The function may be async. A generator function yields the pieces of the answer."""

Found: TypeAlias = ScriptFunction | Script

F = TypeVar("F", bound=ScriptFunction)

functions: dict[str, ScriptFunction] = {}


def script(name: str) -> Callable[[F], F]:
    """Registers the decorated function as the model `script/NAME`, replacing an earlier function.

    The function takes the `Request` and returns text, one or more tool calls (`axe_nb.call`), data
    to encode as JSON, or a whole `Response`; it may be async. A generator streams its reply piece
    by piece. If the function raises `ProviderError`, the request fails with that error.

    Raises:
        ConfigError: if the name is blank, a path, or ends with `.toml`.
    """
    if not isinstance(name, str) or not _is_plain(name):
        raise ConfigError(
            "the name of a script function must be plain, without folders or `.toml`",
            hint='write @axe_nb.script("NAME") above it',
        )

    def register(function: F) -> F:
        functions[name] = function
        return function

    return register


class ScriptNotFound(ConfigError):
    """Raised if no function and no file defines a script."""


class Scripts:
    """A collection of scripts, which reads each file only once, even if the file changes (D-53)."""

    def __init__(
        self, dirs: tuple[Path, ...] = (), sent: Mapping[str, Found] | None = None
    ) -> None:
        """Creates a collection that looks for scripts in `sent`, then functions, then files."""
        self._dirs, self._sent = dirs, sent or {}
        self._read: dict[str, Script] = {}

    def find(self, name: str) -> Found:
        if found := self._sent.get(name) or functions.get(name) or self._read.get(name):
            return found
        folders = _list_folders(self._dirs)
        paths = [expand_home(name)] if name.endswith(".toml") else []
        hint = "use a plain name or the path of a .toml file"
        if _is_plain(name):
            paths = [folder / f"{name}.toml" for folder in folders]
            listed = ", ".join(map(display_path, folders))
            hint = (
                f'before a run, define @axe_nb.script("{name}"), or write {name}.toml in {listed}; '
                "docs/scripts.md shows how"
            )
        for path in paths:
            try:
                text = read_text(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                problem = f"failed to read script {display_path(path)}: {reason(error)}"
                raise ConfigError(problem) from None
            return self._read.setdefault(name, parse_script(text, display_path(path)))
        if near := nearest(name, known(self._dirs)):
            hint = f"did you mean {quote(near)}?"
        raise ScriptNotFound(f"script not found: {name}", hint=hint)


def known(dirs: tuple[Path, ...] = ()) -> list[str]:
    files = (path.stem for folder in _list_folders(dirs) for path in folder.glob("*.toml"))
    return sorted({*functions, *files})


def _list_folders(dirs: tuple[Path, ...]) -> tuple[Path, ...]:
    return (*dirs, Path("axe") / "scripts", config_dir() / "scripts")


def _is_plain(name: str) -> bool:
    """True if a name is not blank, contains no path syntax, and does not end with `.toml`."""
    return bool(name.strip()) and not name.endswith(".toml") and not re.search(r"[/\\:\0]", name)
