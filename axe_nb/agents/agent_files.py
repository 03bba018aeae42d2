"""Agent files: lookup by name, listing and scaffolding; the JSON Schema files that they refer to.

A schema is a file beside it, or below its folder, and not behind a link: the file of an agent may
come with a project.
Source: A-5.6, B-1, B-12, D-81.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from axe_nb.agents.files import expand_home, read_real_text, reason, write_new
from axe_nb.agents.names import check_name
from axe_nb.agents.trust import trust_new_folder
from axe_nb.agents.user_config import PROJECT_AGENTS, Config, agent_dirs
from axe_nb.errors import ConfigError
from axe_nb.text import one_line, quote, suggestion


def creation_step(name: str) -> str:
    """Returns the command that creates the agent `name`."""
    return f"create it with `axe-nb agents init {name}`, in a notebook `%axe init {name}`"


def check_agents_dir(agents_dir: str | Path | None) -> None:
    """Raises ConfigError if the given folder of agents does not exist."""
    if agents_dir and not expand_home(agents_dir).is_dir():
        raise ConfigError(
            f"agents folder not found: {agents_dir}",
            hint="fix the path (--agents-dir, agents_dir), or create the folder",
        )


def find_file(name: str, agents_dir: str | Path | None = None, also: Iterable[str] = ()) -> Path:
    """Returns the first file of that agent; an error suggests a similar name, also of `also`."""
    check_name(name)
    check_agents_dir(agents_dir)
    for folder in agent_dirs(agents_dir):
        path = folder / f"{name}.toml"
        if os.path.lexists(path):
            return path
    bare = name.removesuffix(".toml")
    hint = suggestion(bare, [*list_agents(agents_dir), *also]) or creation_step(bare)
    if not agents_dir:
        with suppress(OSError):  # the current folder was deleted
            above = (folder / PROJECT_AGENTS for folder in Path.cwd().parents)
            found = (folder for folder in above if os.path.lexists(folder / f"{bare}.toml"))
            if (nearest := next(found, None)) is not None:
                place = os.path.relpath(nearest)
                hint = f"there is one in {place}; use --agents-dir {place}"
    raise ConfigError(f"agent config not found: {name}", hint=hint)


def has_file(name: str, agents_dir: str | Path | None = None) -> bool:
    """True if there is an agent file of this name; does not look for similar names."""
    files = (folder / f"{name}.toml" for folder in agent_dirs(agents_dir))
    return any(os.path.lexists(file) for file in files)


def list_agents(agents_dir: str | Path | None = None) -> dict[str, Path]:
    """Returns name → file of every agent found, sorted by name; the first folder wins."""
    found: dict[str, Path] = {}
    for folder in agent_dirs(agents_dir):
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


SCAFFOLD = '''\
name = {name}
description = "A careful assistant"   # what it is for: agents that may call it are told
model = {model}   # provider/model: {providers}

system_prompt = """
You are a careful assistant.
"""

# skill = "skills/review/SKILL.md"      # appended to the system prompt
# files = ["docs/**/*.md"]              # appended to the system prompt; relative to workdir
# workdir = "~/project"

# sub_agents = ["researcher", "writer"] # agents that this one may call
# tools = ["file_ops_readonly", "grep"]
# mode = "ask"                          # plan | ask | auto

# [params]
# temperature = 0.2
# max_tokens = 2048
# thinking = "low"                      # off | low | medium | high

# [sub_agents_config]
# max_depth = 3
# parallel = true
# timeout = 120
'''
"""Template of the file that `init` writes; valid TOML once filled in (A-5.6, B-12)."""


def scaffold(name: str, model: str | None = None) -> str:
    """Returns a commented starter file for an agent; by default with the model of `first_model`."""
    check_name(name)
    config = _load_settings()
    return SCAFFOLD.format(
        name=quote(name),
        model=quote(model or config.first_model()),
        providers=", ".join(config.known),
    )


def first_model() -> str:
    """Returns the most suitable model for a new agent, given the API keys that are set."""
    return _load_settings().first_model()


def _load_settings() -> Config:
    try:
        return Config.load()
    except ConfigError:  # `init` works without settings; a run will report the error
        return Config()


def init(name: str, agents_dir: str | Path | None = None) -> Path:
    """Writes a commented starter file for an agent and returns its path."""
    path = agent_dirs(agents_dir)[0] / f"{name}.toml"
    trust_new_folder(path)
    write_new(path, scaffold(name))
    return path


def read_schema(name: Any, agent_path: str) -> dict[str, Any]:
    """Reads the JSON Schema of `output.schema`, in or below the folder of the agent's file."""
    if not isinstance(name, str) or not name.strip():
        raise _make_schema_error(name, "name a JSON file, or write the schema under [output]")
    if Path(name).is_absolute() or ".." in Path(name).parts or name.startswith("~"):
        raise _make_schema_error(name, "it must be in the folder of the agent's file, or below it")
    folder = Path(agent_path).parent if agent_path else Path()
    return read_schema_file(Path(os.path.realpath(folder), *Path(name).parts), name)


def read_schema_file(path: Path, name: str) -> dict[str, Any]:
    """Reads a JSON Schema, through no link; `name` is the path as given, for errors."""
    try:
        schema = json.loads(read_real_text(path))
    except (OSError, RecursionError, ValueError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else ""
        problem = problem or (reason(error) if isinstance(error, OSError) else "")
        raise _make_schema_error(name, problem or f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise _make_schema_error(name, "it does not contain a JSON object")
    return schema


def _make_schema_error(name: object, problem: str) -> ConfigError:
    return ConfigError(
        f"the schema {quote(one_line(str(name), 100))} cannot be used: {problem}",
        hint='agent files name it as schema = "answer.json" under [output], options as a path',
    )
