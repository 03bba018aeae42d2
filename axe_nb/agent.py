"""Who runs: one agent, from a TOML file or from code.

Source: seed 000 §3.5 (A-5.*, A-E2.*), B-1, B-2, B-12; D-26, D-27, D-36; product.md "Agent files".
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from axe_nb.config import agent_dirs
from axe_nb.errors import ConfigError
from axe_nb.toml_lines import line_of

Mode = Literal["plan", "ask", "auto"]
MODES = ("plan", "ask", "auto")

OF_THE_COMMAND_LINE = frozenset(
    {"memory", "mcp_servers", "artifacts", "stream", "timeout", "allowed_hosts"}
)
"""Keys of the Axe command line that are accepted and not acted on (D-27)."""

OF_ITS_RETRY = frozenset({"backoff", "initial_delay_ms", "max_delay_ms"})
"""The same, below `[retry]`."""


@dataclass(frozen=True, slots=True)
class Budget:
    """`[sub_agents_config.budget]`: what a spawn_agent or delegate_task child may use (D-18)."""

    max_tool_calls: int = 15
    """Tool calls that the child may have executed."""
    max_tokens: int = 8192
    """Size of the child's context: input and output tokens of its latest response."""
    timeout_ms: int = 60000
    """Milliseconds; at least 5000."""


@dataclass(frozen=True, slots=True)
class SubAgentsConfig:
    """`[sub_agents_config]`: how this agent may delegate."""

    enabled: bool = True
    """false takes all delegation tools away."""
    max_depth: int = 0
    """Levels of agents below this one, 1 to 5; 0 = the tool's own default (3, spawn_agent 2)."""
    parallel: bool = True
    """Whether several calls of one response run side by side."""
    timeout: float = 0
    """Seconds for each call_agent child, fractions allowed; 0 = the run's remaining time."""
    max_concurrent: int = 0
    """Children at once; 0 = no cap."""
    max_turns: int = 10
    """Turns of a subagent child, 1 to 50."""
    output_limit: int = 4096
    """Bytes of UTF-8 of a subagent's result that the parent's model sees."""
    inherit_mode: bool = True
    """Whether children run in this agent's mode; never in a laxer one."""
    budget: Budget = Budget()


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """`[limits]`: caps for a run and everything below it; 0 = none."""

    max_requests: int = 0
    """Model requests of the whole tree."""
    max_total_tokens: int = 0
    """Input and output tokens of the whole tree."""


@dataclass(frozen=True, slots=True)
class Retry:
    """`[retry]`: of one request to a provider, never of a child run (D-23)."""

    max_retries: int = 0
    """Further tries after a failure that may pass (429, 529, 5xx, no connection)."""


@dataclass(frozen=True)
class Agent:
    """One agent: what it is told, which model answers, what it may do; from TOML or from code."""

    name: str
    """Required; the file is `<name>.toml`."""
    model: str
    """Required: provider/model, as in anthropic/claude-sonnet-4-5, ollama/llama3.2, script/lead."""
    description: str = ""
    """For people; no model sees it."""
    system_prompt: str = ""
    """What the agent always knows."""
    skill: str = ""
    """Path of a SKILL.md that is added to the system prompt; relative to the config folder."""
    files: tuple[str, ...] = ()
    """Globs of text files that are added to the system prompt, relative to the workdir."""
    workdir: str = ""
    """Folder of the agent's files and tools; empty = the current folder."""
    sub_agents: tuple[str, ...] = ()
    """Names of the agents that it may call; any name here offers the tool call_agent."""
    tools: tuple[str, ...] = ()
    """Names of tools and toolsets that it may use."""
    mode: Mode = "ask"
    """What tools that write may do: plan (nothing), ask (after a yes), auto (all)."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """`[params]` for the model: temperature, max_tokens; other keys are passed on as they are."""
    permissions: Mapping[str, str] = field(default_factory=dict)
    """`[permissions]`: tool → allow, ask or deny, over the mode."""
    limits: TreeLimits = TreeLimits()
    retry: Retry = Retry()
    sub_agents_config: SubAgentsConfig = SubAgentsConfig()
    path: str = field(default="", compare=False, metadata={"toml": False})
    """File that it was loaded from; empty for one made in code."""
    warnings: tuple[str, ...] = field(default=(), compare=False, metadata={"toml": False})
    """What its file says that is accepted but without effect."""

    def __post_init__(self) -> None:
        for name in ("files", "sub_agents", "tools"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _check(self)

    @classmethod
    def load(cls, name: str, agents_dir: str | Path | None = None) -> Agent:
        """The agent `name` from the first folder that has its file.

        Raises:
            ConfigError: there is none, or it is not right; the message says where.
        """
        path = find_file(name, agents_dir)
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"failed to read agent config {quoted(name)}: {reason}", hint=f"look at {path}"
            ) from None
        return cls.from_toml(text, name=name, path=str(path))

    @classmethod
    def from_toml(cls, text: str, *, name: str = "", path: str = "") -> Agent:
        """The agent that a TOML text describes.

        Args:
            name: what it was looked up by; a differing `name` key is a warning (D-26).
            path: its file, for messages and for paths relative to it.

        Raises:
            ConfigError: not TOML, an unknown key, a wrong value, a missing field.
        """
        shown = quoted(name) if name else "in this text"
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            where = f"mend {path}" if path else ""
            raise ConfigError(
                f"failed to parse agent config {shown}: {error}", hint=where
            ) from None
        source = _Source(text, path)
        warnings = _set_aside(table, name)
        values = _table(cls, table, (), source)
        for required in ("name", "model"):
            if not str(values.get(required, "")).strip():
                raise source.error(f"agent config missing required field: {required}")
        try:
            return cls(**values, path=path, warnings=tuple(warnings))
        except ConfigError as error:
            key = tuple(error.message.split(" ", 1)[0].split("."))
            raise ConfigError(error.message, hint=error.hint or source.place(key)) from None

    def to_toml(self) -> str:
        """The agent as a TOML text: what differs from the defaults, in the documented order."""
        import tomli_w

        return tomli_w.dumps(_differing(self), multiline_strings=True)

    def save(self, agents_dir: str | Path | None = None) -> Path:
        """Writes the agent's file, whole or not at all.

        It goes to `agents_dir`, else to where it was loaded from, else to `./axe/agents/`.
        """
        check_name(self.name)
        folder = Path(agents_dir) if agents_dir else agent_dirs()[0]
        path = Path(self.path) if self.path and not agents_dir else folder / f"{self.name}.toml"
        write_whole(path, self.to_toml())
        return path


def check_name(name: str) -> None:
    """Refuses names that are not plain file names (B-12).

    Raises:
        ConfigError: it is empty, or has a path separator or `..`.
    """
    if not name.strip() or any(bad in name for bad in ("/", "\\", "..", "\0")):
        raise ConfigError(
            f"invalid agent name {quoted(name)}: a plain name, without folders",
            hint="use --agents-dir to point at another folder",
        )


def parse_model(model: str) -> tuple[str, str]:
    """provider/model split on the first slash (B-2).

    Raises:
        ConfigError: there is no slash, or nothing on one side of it (exit 1).
    """
    provider, slash, name = model.partition("/")
    problem = (
        "expected provider/model-name"
        if not slash
        else "empty provider"
        if not provider.strip()
        else "empty model name"
        if not name.strip()
        else ""
    )
    if problem:
        raise ConfigError(
            f"invalid model format {quoted(model)}: {problem}",
            hint="for example anthropic/claude-sonnet-4-5, ollama/llama3.2 or script/lead",
            exit_code=1,
        )
    return provider, name


def find_file(name: str, agents_dir: str | Path | None = None) -> Path:
    """The file of the agent `name`, in the first folder that has one.

    Raises:
        ConfigError: there is none; the hint names the nearest agent.
    """
    check_name(name)
    for folder in agent_dirs(agents_dir):
        path = folder / f"{name}.toml"
        if path.exists():
            return path
    near = nearest(name, list_agents(agents_dir))
    hint = f"did you mean {quoted(near)}?" if near else f"`axe-nb agents init {name}` writes one"
    raise ConfigError(f"agent config not found: {name}", hint=hint)


def list_agents(agents_dir: str | Path | None = None) -> dict[str, Path]:
    """Name → file of every agent that can be found, sorted by name; first folder wins."""
    found: dict[str, Path] = {}
    for folder in agent_dirs(agents_dir):
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def quoted(name: str) -> str:
    """The name in double quotes with JSON escaping (D-13)."""
    return json.dumps(name, ensure_ascii=False)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like `word`; empty where none is near."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, 0.6)), "")


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader sees the old or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class _Source:
    """The text that an agent is read from, to say where something stands."""

    text: str
    path: str

    def error(self, message: str, key: tuple[str, ...] = (), *, hint: str = "") -> ConfigError:
        line = line_of(self.text, key) if key else None
        at = f" (line {line})" if line else ""
        return ConfigError(message + at, hint=hint or self.place())

    def place(self, key: tuple[str, ...] = ()) -> str:
        """Where to look; empty where nothing is known."""
        line = line_of(self.text, key) if key else None
        return " of ".join(filter(None, [f"line {line}" if line else "", self.path]))


def _set_aside(table: dict[str, Any], name: str) -> list[str]:
    """Takes what the Axe command line alone understands out of the table; warnings about it."""
    ignored = sorted(OF_THE_COMMAND_LINE & table.keys())
    for key in ignored:
        del table[key]
    retry = table.get("retry")
    if isinstance(retry, dict):
        for key in sorted(OF_ITS_RETRY & retry.keys()):
            del retry[key]
            ignored.append(f"retry.{key}")
    budget = table.pop("budget", None)
    if isinstance(budget, dict):
        limits = table.setdefault("limits", {})
        if "max_tokens" in budget and isinstance(limits, dict):
            limits.setdefault("max_total_tokens", budget.pop("max_tokens"))
        ignored += [f"budget.{key}" for key in budget]
    warnings = [f"without effect in axe_nb: {', '.join(ignored)}"] if ignored else []
    own = table.get("name")
    if name and isinstance(own, str) and own.strip() and own != name:
        warnings.append(f"file {quoted(name + '.toml')} holds the agent name {quoted(own)}")
    return warnings


_IS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("text", lambda v: isinstance(v, str)),
    "Mode": ("text", lambda v: isinstance(v, str)),
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "int": ("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "float": ("a number", lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)),
    "tuple[str, ...]": (
        "a list of texts",
        lambda v: isinstance(v, (list, tuple)) and all(isinstance(e, str) for e in v),
    ),
    "Mapping[str, Any]": ("a table", lambda v: isinstance(v, Mapping)),
    "Mapping[str, str]": (
        "a table of texts",
        lambda v: isinstance(v, Mapping) and all(isinstance(e, str) for e in v.values()),
    ),
}
"""Annotation of a field → how its type is called, and whether a value is of it."""

_TABLES: Mapping[str, type] = {
    "Budget": Budget,
    "SubAgentsConfig": SubAgentsConfig,
    "TreeLimits": TreeLimits,
    "Retry": Retry,
}

T = TypeVar("T")


def keys_of(cls: type) -> dict[str, str]:
    """TOML key → its annotation, for one table of an agent file."""
    return {f.name: str(f.type) for f in dataclasses.fields(cls) if f.metadata.get("toml", True)}


def _table(cls: type, table: Any, at: tuple[str, ...], source: _Source) -> dict[str, Any]:
    """The table's values by field, nested tables built.

    Raises:
        ConfigError: a key that the table does not have, or a value of the wrong type.
    """
    if not isinstance(table, dict):
        raise source.error(f"{'.'.join(at)} must be a table", at)
    keys = keys_of(cls)
    values: dict[str, Any] = {}
    for key, value in table.items():
        dotted = ".".join((*at, key))
        if key not in keys:
            near = nearest(key, keys)
            hint = f"did you mean {quoted(near)}?" if near else f"known keys: {', '.join(keys)}"
            raise source.error(f"unknown key {quoted(dotted)}", (*at, key), hint=hint)
        annotation = keys[key]
        if annotation in _TABLES:
            inner = _TABLES[annotation]
            values[key] = inner(**_table(inner, value, (*at, key), source))
            continue
        called, fits = _IS[annotation]
        if not fits(value):
            raise source.error(f"{dotted} must be {called}", (*at, key))
        values[key] = value
    return values


def _check(agent: Agent) -> None:
    """Refuses values that the types allow and the designs do not (A-5.4, A-5.5, D-36).

    Raises:
        ConfigError: names the key.
    """
    config, budget = agent.sub_agents_config, agent.sub_agents_config.budget
    deny = [
        (agent.mode not in MODES, f"mode must be one of {', '.join(MODES)}"),
        (config.max_depth > 5, "sub_agents_config.max_depth cannot exceed 5"),
        (config.max_depth < 0, "sub_agents_config.max_depth must be non-negative"),
        (not 0 <= config.timeout < float("inf"), "sub_agents_config.timeout must be non-negative"),
        (config.max_concurrent < 0, "sub_agents_config.max_concurrent must be non-negative"),
        (not 1 <= config.max_turns <= 50, "sub_agents_config.max_turns must be between 1 and 50"),
        (config.output_limit <= 0, "sub_agents_config.output_limit must be positive"),
        (budget.max_tool_calls <= 0, "sub_agents_config.budget.max_tool_calls must be positive"),
        (budget.max_tokens <= 0, "sub_agents_config.budget.max_tokens must be positive"),
        (budget.timeout_ms < 5000, "sub_agents_config.budget.timeout_ms must be at least 5000"),
        (agent.limits.max_requests < 0, "limits.max_requests must be non-negative"),
        (agent.limits.max_total_tokens < 0, "limits.max_total_tokens must be non-negative"),
        (agent.retry.max_retries < 0, "retry.max_retries must be non-negative"),
    ]
    for wrong, message in deny:
        if wrong:
            raise ConfigError(message)
    for tool, permission in agent.permissions.items():
        if permission not in ("allow", "ask", "deny"):
            raise ConfigError(f"permissions.{tool} must be allow, ask or deny")


def _differing(value: Any) -> dict[str, Any]:
    """The TOML table of a dataclass: fields that differ from their default."""
    table: dict[str, Any] = {}
    for f in dataclasses.fields(value):
        if not f.metadata.get("toml", True):
            continue
        own = getattr(value, f.name)
        default = f.default_factory() if callable(f.default_factory) else f.default
        if own == default:
            continue
        if dataclasses.is_dataclass(own):
            table[f.name] = _differing(own)
        elif isinstance(own, Mapping):
            table[f.name] = dict(own)
        else:
            table[f.name] = list(own) if isinstance(own, tuple) else own
    return table


SCAFFOLD = '''\
name = {name}
# description = "What this agent is for"
model = "anthropic/claude-sonnet-4-5"   # provider/model: anthropic, openai, ollama, script

system_prompt = """
You are a careful assistant.
"""

# skill = "skills/review/SKILL.md"      # added to the system prompt
# files = ["docs/**/*.md"]              # added to the system prompt, relative to workdir
# workdir = "~/project"

# sub_agents = ["researcher", "writer"] # agents that it may call
# tools = ["file_ops_readonly", "grep"]
# mode = "ask"                          # plan | ask | auto

# [params]
# temperature = 0.2
# max_tokens = 2048

# [sub_agents_config]
# max_depth = 3
# parallel = true
# timeout = 120
'''
"""What `agents init` writes; valid TOML (A-5.6, B-12)."""


def scaffold(name: str) -> str:
    """A commented agent file to start from."""
    check_name(name)
    return SCAFFOLD.format(name=quoted(name))
