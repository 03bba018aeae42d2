"""The form of an answer that an option of a run gives: a file, a schema or a type.

Source: product.md "Notebook" (`--output FILE_OR_NAME`), "Python" (`output=`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from axe_nb.agents.files import expand_home
from axe_nb.agents.output_file import read_schema_file
from axe_nb.errors import ConfigError
from axe_nb.outputs.output import Output, make_output
from axe_nb.text import quote


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
    if given.isidentifier() and not path.exists():
        raise ConfigError(
            f"JSON Schema file not found: {quote(given)}",
            hint="in a notebook, --output also takes the name of a type or dict; in Python, pass "
            "it as output=",
        )
    return make_output(read_schema_file(path, given), quote(given))
