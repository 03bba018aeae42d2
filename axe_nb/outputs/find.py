"""The form of an answer that an option of a run gives: a file, a schema or a type.

Source: product.md "Notebook" (`--output FILE_OR_NAME`), "Python" (`output=`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from axe_nb.agents.agent_files import read_schema_file
from axe_nb.agents.files import expand_home
from axe_nb.errors import ConfigError
from axe_nb.outputs.output import Output, make_output, may_be_output
from axe_nb.text import quote, suggestion

LIST = re.compile(r"list\[\s*([^\W\d]\w*)\s*\]")
"""A list as the word of an option: only names are looked up, nothing is evaluated."""

BASIC = {"str": str, "int": int, "float": float, "bool": bool}


def find_named(word: str, names: Mapping[str, Any]) -> Any:
    """Returns the value that `--output` names, `NAME` or `list[NAME]`; any other word as it is.

    Args:
        word: the word.
        names: the user's variables; none where there are no variables, as in a shell.

    Raises:
        ConfigError: there is no variable of that name.
    """
    if word in names:
        return names[word]
    listed = LIST.fullmatch(word)
    if listed is None:
        return word
    name = listed[1]
    if name not in names and name not in BASIC:
        if not names:
            return word
        known = [key for key, value in names.items() if may_be_output(value)]
        raise ConfigError(
            f"no variable {quote(name)} for --output {word}",
            hint=suggestion(name, known) or "name a type or a dict of this notebook",
        )
    item = names.get(name, BASIC.get(name))
    return {"type": "array", "items": item} if isinstance(item, Mapping) else list[item]  # type: ignore[valid-type]  # any type


def find_output(given: Any) -> Output:
    """Returns the form of an answer.

    Args:
        given: a JSON Schema, a type, an `Output`, or the path of a file with a JSON Schema.

    Raises:
        ConfigError: it cannot be used; one that is not there may have been meant as a name.
    """
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if not isinstance(given, str):
        return make_output(given, "output")
    path = Path(os.path.realpath(expand_home(given)))
    if (given.isidentifier() or given.startswith("list[")) and not path.exists():
        raise ConfigError(
            f"JSON Schema file not found: {quote(given)}",
            hint="in a notebook, --output also takes the name of a type or dict, or list[NAME]; in "
            "Python, pass it as output=",
        )
    return make_output(read_schema_file(path, given), quote(given))
