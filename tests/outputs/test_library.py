"""What the validator of structured output costs to import, and what its other users keep."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

USES = {
    "a structured output": """
from axe_nb.conversion.json_schema import clean_schema, find_mistakes
assert find_mistakes(clean_schema({"type": "object"}, "a schema"), {}) == []
""",
    "a notebook": "from axe_nb.testing.headless import load; load('nbformat')\n",
}
CHECK = """
import sys
print({"lark", "rfc3987_syntax"} & set(sys.modules))
from jsonschema import Draft202012Validator as Validator
iris = Validator({"format": "iri"}, format_checker=Validator.FORMAT_CHECKER)
print(iris.is_valid("http://example.org/\u00e9"), iris.is_valid("none at all"))
"""


@pytest.mark.skipif(find_spec("rfc3987_syntax") is None, reason="JupyterLab brings it")
@pytest.mark.parametrize("use", USES)
def test_the_parsers_of_a_format_are_made_only_if_it_is_checked(use: str) -> None:
    code = USES[use] + CHECK
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["set()", "True False"], done.stderr
