"""The JSON Schema that an agent file names: a file beside it, or below its folder.

It cannot lie elsewhere, nor behind a link: the file of an agent may come with a project.
Source: product.md "Agent files" (`[output]`); D-81.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from axe_nb.agents.files import read_real_text, reason
from axe_nb.errors import ConfigError
from axe_nb.text import one_line, quote


def read_schema(name: Any, agent_path: str) -> dict[str, Any]:
    """Reads the file of a JSON Schema.

    Args:
        name: the value of `output.schema`.
        agent_path: the agent's file; empty = an agent made in code, of the current folder.

    Raises:
        ConfigError: it does not lie there, or does not hold a JSON object.
    """
    if not isinstance(name, str) or not name.strip():
        raise _make_error(name, "name a JSON file, or write the schema itself under [output]")
    folder = Path(agent_path).parent if agent_path else Path()
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts or name.startswith("~"):
        raise _make_error(name, "it must be in the folder of the agent's file, or below it")
    return read_schema_file(Path(os.path.realpath(folder), *parts), name)


def read_schema_file(path: Path, name: str) -> dict[str, Any]:
    """Reads a JSON Schema from a file, through no link.

    Args:
        path: absolute.
        name: as it was given, for errors.

    Raises:
        ConfigError: it cannot be read, or does not hold a JSON object.
    """
    try:
        schema = json.loads(read_real_text(path))
    except OSError as error:
        raise _make_error(name, reason(error)) from None
    except RecursionError:
        raise _make_error(name, "it is nested too deeply") from None
    except ValueError as error:
        raise _make_error(name, f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise _make_error(name, "it does not contain a JSON object")
    return schema


def _make_error(name: object, problem: str) -> ConfigError:
    return ConfigError(
        f"the schema {quote(one_line(str(name), 100))} cannot be used: {problem}",
        hint='agent files name it as schema = "answer.json" under [output], options as a path',
    )
