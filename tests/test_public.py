"""The public face of the package: its names, where they lead, and that each says what it is."""

import ast
import inspect
import sys
import tomllib
from pathlib import Path
from types import FunctionType

import pytest

import axe_nb

ROOT = Path(__file__).parent.parent

PROMISED = {
    "Agent", "run", "arun", "stream", "last", "tool", "script", "script_server", "ToolContext",
    "load", "RunResult", "AxeError", "ConfigError", "ProviderError", "RunError", "expect",
    "ExpectationError", "use_http_client", "replay",
}  # fmt: skip
"""What product.md and its error texts name."""


def test_the_promised_names_are_exported() -> None:
    assert set(axe_nb.__all__) >= PROMISED
    assert list(axe_nb.__all__) == sorted(axe_nb.__all__)
    assert len(axe_nb.__all__) <= 40  # product.md names all but the types of map, grid and step


@pytest.mark.parametrize("name", axe_nb.__all__)
def test_every_public_name_and_method_has_a_docstring(name: str) -> None:
    value = getattr(axe_nb, name)
    text = inspect.getdoc(value)
    assert text
    # the words that a dataclass makes up by itself are no docstring
    assert not text.startswith(f"{name}(")
    kinds = (FunctionType, property, classmethod, staticmethod)
    members = vars(value).items() if inspect.isclass(value) else ()
    methods = [one for one, member in members if isinstance(member, kinds) and one[0] != "_"]
    assert [one for one in methods if not inspect.getdoc(getattr(value, one))] == []
    assert name in dir(axe_nb)


def test_every_module_says_why_it_exists() -> None:
    for file in (ROOT / "axe_nb").rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        assert ast.get_docstring(tree) or not tree.body, file


def test_the_type_checker_sees_the_same_names_as_the_interpreter() -> None:
    tree = ast.parse((ROOT / "axe_nb" / "__init__.py").read_text("utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: f"axe_nb.{node.module.removeprefix('axe_nb.')}"
        for node in guarded.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("axe_nb")
        for alias in node.names
    }
    assert set(seen) == set(axe_nb.__all__)
    for name, module in seen.items():
        assert getattr(sys.modules[module], name) is getattr(axe_nb, name)


def test_the_version_is_that_of_the_distribution() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert axe_nb.__version__ == pyproject["project"]["version"]
