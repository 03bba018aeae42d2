"""The tables of an agent file that have their own class.

Source: A-5.1, A-5.4, D-18, D-23, D-27, D-36, D-56.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

from axe_nb.agents.provider_table import SERVER_TOOLS
from axe_nb.conversion.toml_tables import (
    WrongValue,
    build_nested,
    check_choice,
    check_types,
    clear_arguments,
)
from axe_nb.messages.model_table import LEVELS

Mode = Literal["plan", "ask", "auto"]
MODES = ("plan", "ask", "auto")

Ask = Literal["deny", "person"]

COMMON_PARAMS = ("temperature", "max_tokens", "thinking", "top_p", "top_k", "seed", "stop")
"""Keys of `[params]` that many models take."""


_TIME = "a time limit is an option of the run: --timeout, in Python timeout="
_TREE = "limits.max_requests limits the requests of the whole tree"

LIMIT_ADVICE = {
    "max_turns": f"{_TREE}; max_turns under [sub_agents_config] applies to subagent children only",
    "max_tool_calls": (
        f"{_TREE}; max_tool_calls under [sub_agents_config.budget] applies to spawned children only"
    ),
    "timeout": _TIME,
    "timeout_ms": _TIME,
}
"""Limits that only children have → the next step for an agent that sets one for itself."""

NEGATIVE = "must be non-negative"


def _reject(*checks: tuple[str, bool, str]) -> None:
    """Raises WrongValue for the first key whose check is true; a check ends with the problem."""
    for key, is_wrong, problem in checks:
        if is_wrong:
            raise WrongValue((key,), problem)


@clear_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ChildBudget:
    """`[sub_agents_config.budget]`: limits of a spawn_agent or delegate_task child (D-18)."""

    max_tool_calls: int = 15
    """Tool calls that the child may make."""
    max_tokens: int = 8192
    """Size of the child's context: input and output tokens of its latest response."""
    timeout_ms: int = 60000
    """Milliseconds; at least 5000."""

    def __post_init__(self) -> None:
        check_types(self)
        _reject(
            ("max_tool_calls", self.max_tool_calls <= 0, "must be positive"),
            ("max_tokens", self.max_tokens <= 0, "must be positive"),
            ("timeout_ms", self.timeout_ms < 5000, "must be at least 5000"),
        )


@clear_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentsConfig:
    """`[sub_agents_config]`: rules for delegation by this agent."""

    enabled: bool = True
    """If false, all delegation tools are removed."""
    max_depth: int = 0
    """Levels of agents below this one, 1 to 5; 0 = the tool's own default (3, spawn_agent 2)."""
    parallel: bool = True
    """If true, several calls of one response run concurrently."""
    timeout: float = 0
    """Seconds for each call_agent child, fractions allowed; 0 = the remaining time of the run."""
    ask: Ask = "deny"
    """Approval for children: `deny` refuses, `person` prompts you as for the root agent."""
    max_concurrent: int = 0
    """Maximum number of concurrent children; 0 = no limit."""
    max_turns: int = 10
    """Maximum turns of a subagent child, 1 to 50."""
    output_limit: int = 4096
    """Maximum size of a subagent's result for the parent's model, in bytes of UTF-8."""
    inherit_mode: bool = True
    """If true, children run in this agent's mode; they never run in a less strict one."""
    budget: ChildBudget = ChildBudget()

    def __post_init__(self) -> None:
        build_nested(self)
        check_types(self)
        check_choice(("ask",), self.ask, get_args(Ask))
        _reject(
            ("max_depth", self.max_depth > 5, "cannot exceed 5"),
            ("max_depth", self.max_depth < 0, NEGATIVE),
            ("timeout", self.timeout < 0, NEGATIVE),
            ("max_concurrent", self.max_concurrent < 0, NEGATIVE),
            ("max_turns", not 1 <= self.max_turns <= 50, "must be between 1 and 50"),
            ("output_limit", self.output_limit <= 0, "must be positive"),
        )


NO_CONFIG = SubAgentsConfig()
"""The defaults, if nothing is configured."""


@clear_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """`[limits]`: limits of a run and all runs below it; 0 = no limit."""

    advice: ClassVar[Mapping[str, str]] = LIMIT_ADVICE

    max_requests: int = 1000
    """Model requests of the whole tree."""
    max_calls_per_reply: int = 256
    """Tool calls of one reply that are run; the others get an error result."""
    max_in_flight: int = 200
    """Model requests of the whole tree that are in progress at once, and likewise tool calls;
    others wait."""
    max_total_tokens: int = 0
    """Input and output tokens of the whole tree."""
    max_cost: float = 0
    """US dollars that the whole tree may cost; the prices of all its models must be known."""
    max_picture_bytes: int = 5_000_000
    """Bytes of one picture, four times that in one request; larger ones are scaled down if Pillow
    is installed."""

    def __post_init__(self) -> None:
        check_types(self)
        _reject(*((one.name, getattr(self, one.name) < 0, NEGATIVE) for one in fields(self)))


DEFAULT_LIMITS = TreeLimits()
"""The limits of an agent without `[limits]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxeBudget:
    """`[budget]` of the Axe command line; treated as `[limits]` (D-27)."""

    advice: ClassVar[Mapping[str, str]] = LIMIT_ADVICE

    max_tokens: int = 0
    """The same as `limits.max_total_tokens`."""

    def __post_init__(self) -> None:
        check_types(self)
        _reject(("max_tokens", self.max_tokens < 0, NEGATIVE))


@clear_arguments
@dataclass(frozen=True, slots=True)
class Retry:
    """`[retry]`: retries of a request to a provider, never of a child run (D-23)."""

    max_retries: int | None = None
    """Retries after a temporary failure (408, 409, 425, 429, 5xx, no connection); 0 = none.

    By default `AXE_NB_RETRIES`, else `[retry]` of config.toml, else 2.
    """

    def __post_init__(self) -> None:
        check_types(self)
        _reject(("max_retries", (self.max_retries or 0) < 0, NEGATIVE))


def check_params(params: Mapping[str, Any]) -> None:
    """Rejects parameters that cannot be sent.

    Raises:
        WrongValue: names the key.
    """
    for name, value in params.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            problem = "must be valid JSON: no dates, nan or inf"
            raise WrongValue(("params", name), problem) from None
    asked = params.get("thinking")
    is_count = isinstance(asked, int) and not isinstance(asked, bool) and asked > 0
    if isinstance(asked, (str, int, float)) and asked not in LEVELS and not is_count:
        raise WrongValue(("params", "thinking"), f"must be {', '.join(LEVELS)} or a whole number")
    if not _are_server_tools(params.get(SERVER_TOOLS, {})):
        raise WrongValue(
            ("params", SERVER_TOOLS),
            "must be a table of NAME = { options }, whose type and name follow from NAME",
        )


def _are_server_tools(given: Any) -> bool:
    return isinstance(given, Mapping) and all(
        isinstance(o, Mapping) and not {"type", "name"} & o.keys() for o in given.values()
    )


def keep_server_tools(params: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Returns the params with those of `params.server_tools` that have one of the names."""
    given = params.get(SERVER_TOOLS, {})
    kept = {name: options for name, options in given.items() if name in names}
    others = {key: value for key, value in params.items() if key != SERVER_TOOLS}
    return {**others, SERVER_TOOLS: kept} if kept else others


def variable_problem(name: str) -> str:
    """Returns the reason why a variable cannot have this name; empty if it can."""
    if not name.isidentifier():
        return "must have a name made of letters, digits and _ that does not start with a digit"
    return "must have another name: this one is a Python keyword" if keyword.iskeyword(name) else ""
