"""The reference page is made from the code, and names all that the code reads."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import ChildBudget, Retry, SubAgentsConfig, TreeLimits
from axe_nb.commands.option_table import OPTIONS
from axe_nb.conversion.toml_tables import toml_fields
from axe_nb.expectations import parse
from axe_nb.results import EXIT_CODES

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference.md"


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("make_reference")


def test_each_form_of_an_expectation_is_one(generator: ModuleType) -> None:
    assert all(map(parse, generator.FORMS))


def test_the_checked_in_page_is_the_one_that_the_generator_makes(generator: ModuleType) -> None:
    made = generator.reference()
    assert PAGE.read_text("utf-8") == made, "run `python docs/make_reference.py`"


@pytest.mark.parametrize("cls", [Agent, SubAgentsConfig, ChildBudget, TreeLimits, Retry])
def test_every_key_has_a_meaning_and_is_on_the_page(cls: type, generator: ModuleType) -> None:
    text = PAGE.read_text("utf-8")
    told = generator.strings_below(cls)
    for field in toml_fields(cls):
        row = re.search(rf"^`{field.name}( = .+)?` \| .", text, re.MULTILINE)
        assert f"{field.name}]`" in text or (told[field.name] and row)


def test_every_option_status_and_exit_code_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    assert [option.flag for option in OPTIONS if option.flag not in text] == []
    assert [status for status in EXIT_CODES if f"\n`{status}` | " not in text] == []
    assert [code for code in {*EXIT_CODES.values(), 2} if f"` | {code} | " not in text] == []


def variables_read() -> Iterator[str]:
    """Names of environment variables that are written out in the code."""
    for file in (ROOT / "axe_nb").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="get", value=environ), args=[ast.Constant(name), *_]
                ) if ast.unparse(environ).endswith("environ"):
                    yield name


def test_every_variable_that_is_read_is_on_the_page() -> None:
    names = set(variables_read())
    assert {"XDG_CONFIG_HOME", "EDITOR"} <= names
    assert names <= set(re.findall(r"`(\w+)`", PAGE.read_text("utf-8")))
