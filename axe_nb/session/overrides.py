"""Options that change an agent for one run, set by keywords, an option line or a command line.

Source: B-9, D-10.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeAlias, TypedDict, TypeVar

from axe_nb.agents.agent_tables import COMMON_PARAMS, MODES, Mode
from axe_nb.conversion.jsonable import as_number, to_plain
from axe_nb.conversion.toml_tables import is_number, is_whole
from axe_nb.engine.person import Breakpoint, StepFunction, Stepper
from axe_nb.errors import ConfigError
from axe_nb.text import nearest, quote, shown_value, suggestion
from axe_nb.tools.python_tool import tool_of
from axe_nb.tools.tool import Tool

Tools: TypeAlias = str | Tool | Callable[..., Any]
"""A tool name, a Tool, or a function marked with `@axe_nb.tool`."""

DEFAULT_TIMEOUT = 120.0
"""Default time limit in seconds for a run and all its descendants (B-9)."""

StepOption: TypeAlias = bool | StepFunction

F = TypeVar("F", bound=Callable[..., Any])


class RunOptions(TypedDict, total=False):
    """Keywords of `axe_nb.run`, for type checkers; None counts as omitted, except for `timeout`."""

    model: str | None
    model_all: str | None
    skill: str | os.PathLike[str] | None
    workdir: str | os.PathLike[str] | None
    timeout: float | None
    retries: int | None
    params: Mapping[str, Any] | None
    vars: Mapping[str, Any] | None
    agents_dir: str | os.PathLike[str] | None
    tools: Sequence[Tools] | None
    mode: Mode | None
    stream: bool | None
    output: Any
    expect: str | None
    step: bool | StepFunction | None
    break_at: str | Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Changes to an agent for one run; None keeps the agent's own value."""

    model: str | None = None
    model_all: str | None = None
    skill: str | None = None
    workdir: str | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    """Time limit in seconds; None or 0 for no limit."""
    retries: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    vars: Mapping[str, Any] = field(default_factory=dict)
    agents_dir: str | None = None
    tools: tuple[str | Tool, ...] | None = None
    mode: Mode | None = None
    stream: bool | None = None
    output: Any = None
    """Format of the answer: a JSON Schema, a type, or the path of a JSON Schema file."""
    expect: str | None = None
    step: StepOption | None = None
    break_at: tuple[str, ...] | None = None
    """Places to pause at; if None or empty, `step` pauses before every request and every call."""

    def __post_init__(self) -> None:
        if self.output is not None:
            from axe_nb.tools.output_form import find_output

            object.__setattr__(self, "output", find_output(self.output))
        for name, (wanted, fits) in _CHECKS.items():
            value = getattr(self, name)
            match name, value:
                case "timeout", int() | float() if value == 0 and value is not False:
                    value = None
                case _, os.PathLike():
                    value = os.fspath(value)
                case "params", Mapping() if value:
                    with suppress(RecursionError):  # reported when the request is encoded
                        value = to_plain(dict(value))
                case "break_at", str():
                    value = tuple(place.strip() for place in value.split(",") if place.strip())
                case "break_at", list():
                    value = tuple(value)
                case "tools", list() | tuple():
                    value = tuple(
                        tool if isinstance(tool, str) or not callable(tool) else tool_of(tool)
                        for tool in value
                    )
            if not fits(value):
                raise ConfigError(f"{name} takes {wanted}, not {shown_value(value)}")
            object.__setattr__(self, name, value)
        if self.expect is not None:
            from axe_nb.expectations import parse

            parse(self.expect)
        self.make_stepper()

    def make_stepper(self) -> Stepper | None:
        """Returns the object that pauses a run tree, or None if the tree never pauses.

        Raises ConfigError if a place in `break_at` is invalid.
        """
        if not self.step and not self.break_at:
            return None
        places = tuple(map(Breakpoint.parse, self.break_at or ()))
        return Stepper(places, self.step if callable(self.step) else None)

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
        others: Sequence[str] = (),
    ) -> Overrides:
        """Creates overrides from keywords. `others` are further options to list in errors."""
        for name in given:
            if name not in _CHECKS:
                known = (*others, *_CHECKS)
                hint = suggestion(name, known)
                if not hint and (parameter := nearest(name, COMMON_PARAMS)):
                    hint = f'to pass it to the model: params={{"{parameter}": …}}'
                hint = hint or f"known options: {', '.join(known)}"
                raise ConfigError(f"unknown option {quote(name)}", hint=hint)
        given = {name: as_number(value) for name, value in given.items()}
        return cls(**merge_options(given, defaults or {}))


def merge_options(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Merges keywords into defaults; None counts as omitted, except for `timeout`."""
    chosen = {k: v for k, v in given.items() if v is not None or k == "timeout"}
    return {**defaults, **chosen}


STEPS = ("step", "break_at")
"""Options that pause a run, which maps and grids do not take."""


def refuse_steps(given: dict[str, Any], many: str) -> dict[str, Any]:
    """Returns the `given` options. Raises ConfigError if they set `step` or `break_at`."""
    for name in STEPS:
        if given.get(name):
            raise ConfigError(
                f"{many} does not take {name}: you could not follow several runs at once",
                hint="step through one of them with axe_nb.run",
            )
    return given


def keep_for_tree(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults that apply to a fork, leaving out those that change an agent."""
    of_tree = ("timeout", "agents_dir")
    return {name: value for name, value in defaults.items() if name in of_tree}


def with_options_shown(function: F, without: Collection[str] = ()) -> F:
    """Expands `**options` in the function's signature, for `help` and Tab completion."""
    given = inspect.signature(function)
    shown = [p for p in given.parameters.values() if p.kind is not p.VAR_KEYWORD]
    shown[2:2] = [
        inspect.Parameter(
            option.name, inspect.Parameter.KEYWORD_ONLY, annotation=option.type,
            default=None if option.default is MISSING else option.default,
        )
        for option in fields(Overrides)
        if option.name not in without
    ]  # fmt: skip
    vars(function)["__signature__"] = given.replace(parameters=shown)
    return function


def _is_tuple_of(kinds: type | tuple[type, ...]) -> Callable[[Any], bool]:
    return lambda v: v is None or (isinstance(v, tuple) and all(isinstance(e, kinds) for e in v))


_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str | None": ("a string", lambda v: v is None or isinstance(v, str)),
    "bool | None": ("True or False", lambda v: v is None or isinstance(v, bool)),
    "StepOption | None": (
        "True or a function",
        lambda v: isinstance(v, bool | None) or callable(v),
    ),
    "int | None": ("a whole number, as in 2", lambda v: v is None or is_whole(v, 0)),
    "float | None": ("seconds, as in 120 or 0.5", lambda v: v is None or (is_number(v) and v >= 0)),
    "Mode | None": (", ".join(MODES), lambda v: v in (None, *MODES)),
    "Mapping[str, Any]": (
        'a dict, as in {"temperature": 0.2}',
        lambda v: isinstance(v, Mapping) and all(isinstance(key, str) for key in v),
    ),
    "tuple[str | Tool, ...] | None": ('a list of tools, as in ["grep"]', _is_tuple_of((str, Tool))),
    "Any": ("a JSON Schema or a type", lambda v: True),
    "tuple[str, ...] | None": ("a list of strings", _is_tuple_of(str)),
}
"""Type annotation in `Overrides` → name of the type in messages, and a check for values."""

_CHECKS = {field.name: _KINDS[str(field.type)] for field in fields(Overrides)}
