"""The house: which room may know which, who may print, what an import costs, how long a room is.

Source: house style §1, §12; goals, "import axe_nb".
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Set
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "axe_nb"

ROOMS = (
    "text", "secrets", "errors",
    "paths", "pictures", "messages",
    "conversion", "agents",
    "results", "events",
    "threads", "sandbox", "providers", "tools",
    "scripting",
    "builtin", "mcp_servers", "delegation", "engine", "recording", "expectations",
    "session", "views",
    "commands", "cell_display", "exploring",
    "api", "notebook", "__init__", "testing",
    "cli", "__main__",
)  # fmt: skip
"""Modules and folders of `axe_nb/`: each imports from earlier ones, a folder also from itself."""

NAME = re.compile(r"`(\w+)/?`")

JUPYTER = {"IPython", "anywidget", "ipywidgets", "traitlets"}
"""What only the rooms of the notebook import."""

NOTEBOOK = {"cell_display", "notebook"}

FRONT_END = "cell_display.front_end"
"""Decides whether there is a notebook at all."""

LATE = JUPYTER | {
    "genai_prices", "httpx", "jsonschema", "justhtml", "markdown_it", "orjson", "regex",
    "tomli_w",
}  # fmt: skip
"""What is imported on first use."""

LEADS_UP = ("_repr_mimebundle_", "request", "diff", "fork", "afork", "undo")
"""Methods of `RunResult` that import from above, on use: users look for them there, and every room
makes results."""

TREES = {
    file.relative_to(PACKAGE).with_suffix("").as_posix(): ast.parse(file.read_text("utf-8"))
    for file in sorted(PACKAGE.rglob("*.py"))
}
"""Module → its syntax."""

NODES = [(module, node) for module, tree in TREES.items() for node in ast.walk(tree)]
"""Every node of the package, with its module."""


def room_of(module: str) -> str:
    return module.partition("/")[0]


def imports(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """(statement, dotted name) of all that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{'.' * node.level}{node.module}.{a.name}") for a in node.names)


def leads_up(module: str, statement: ast.AST) -> bool:
    """True for an import in such a method, or of the types that it returns."""
    if module != "results":
        return False
    [result] = [n for n in TREES[module].body if getattr(n, "name", "") == "RunResult"]
    methods = [n for n in ast.walk(result) if getattr(n, "name", "") in LEADS_UP]
    types = [n for n in TREES[module].body if isinstance(n, ast.If)]
    return any(statement in ast.walk(scope) for scope in (*methods, *types))


def own_imports() -> Iterator[tuple[str, ast.AST, str]]:
    """(module, statement, room) of all that the package imports from itself."""
    for module, tree in TREES.items():
        for statement, name in imports(tree):
            package, _, rest = name.partition(".")
            if package == "axe_nb":
                room = rest.partition(".")[0]
                yield module, statement, room if room in ROOMS else "__init__"


def packages(tree: ast.AST) -> Set[str]:
    return {name.partition(".")[0] for _, name in imports(tree)}


def test_every_room_has_its_place_in_the_order() -> None:
    new = {room_of(module) for module in TREES} - set(ROOMS)
    assert new == set(), "a new room gets its place in ROOMS of tests/test_layers.py"


def test_the_architecture_page_lists_the_rooms_in_their_order() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    table = page.split("room | contents")[1].split("\n\n")[0]
    listed = [name for row in table.splitlines()[2:] for name in NAME.findall(row.split("|")[0])]
    assert listed == [room for room in ROOMS if not room.startswith("__")]


def test_the_architecture_page_names_modules_that_exist() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`([\w/]+\.(?:py|js))`", page)
    folders = (PACKAGE, PACKAGE.parent)
    assert [name for name in named if not any((f / name).exists() for f in folders)] == []


def test_a_module_imports_only_from_the_rooms_before_its_own() -> None:
    order = {room: place for place, room in enumerate(ROOMS)}
    wrong = {
        f"{module}: {ast.unparse(statement)}"
        for module, statement, room in own_imports()
        if order[room] >= order.get(room_of(module), -1)
        and not module.startswith(f"{room}/")
        and not leads_up(module, statement)
    }
    assert wrong == set()


def module_of(name: str) -> str:
    path = name.removeprefix("axe_nb.").replace(".", "/")
    room = path.rpartition("/")[0]
    return next(m for m in (path, f"{path}/__init__", room, f"{room}/__init__") if m in TREES)


def test_no_modules_import_one_another_in_a_circle() -> None:
    needs = {
        module: {
            module_of(name)
            for statement, name in imports(tree)
            if name.startswith("axe_nb.") and not leads_up(module, statement)
        }
        - {module}
        for module, tree in TREES.items()
    }
    TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle


def test_imports_name_the_whole_path() -> None:
    assert {m for m, tree in TREES.items() if "" in packages(tree)} == set()


def test_the_command_line_does_without_the_notebook() -> None:
    users = {
        module
        for module, tree in TREES.items()
        for _, name in imports(tree)
        if name.startswith(tuple(f"axe_nb.{room}." for room in NOTEBOOK))
        and not name.startswith(f"axe_nb.{FRONT_END}.")
    }
    assert {room_of(module) for module in users} <= {*NOTEBOOK, "__init__"}


def test_the_front_end_is_found_without_the_notebook() -> None:
    tree = TREES[FRONT_END.replace(".", "/")]
    own = {name for node, name in imports(tree) if node in tree.body}
    assert not packages(tree) & JUPYTER
    assert not any("cell_display" in name for name in own)


def test_only_the_rooms_of_the_notebook_know_jupyter() -> None:
    users = {module for module, tree in TREES.items() if packages(tree) & JUPYTER}
    assert {room_of(module) for module in users} <= {*NOTEBOOK, "__init__"}
    guarded = next(node for node in TREES["__init__"].body if isinstance(node, ast.If))
    assert ast.unparse(guarded.test) == "TYPE_CHECKING"
    at_run_time = [node for node in TREES["__init__"].body if node is not guarded]
    assert packages(ast.Module(at_run_time, [])) & JUPYTER == set()


def test_no_providers_own_kit_is_used() -> None:
    used = {m for m, tree in TREES.items() if packages(tree) & {"anthropic", "openai", "ollama"}}
    assert used == set()


def test_only_the_notebook_and_the_command_print() -> None:
    printing = {
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, node in NODES
        if room_of(module) not in ("notebook", "cli", "cell_display")
        and isinstance(node, ast.Name | ast.Attribute)
        and ast.unparse(node) in ("print", "sys.stdout", "sys.stderr")
    }
    assert printing == set()


@pytest.mark.parametrize(
    "module", ["axe_nb", "axe_nb.engine.loop", "axe_nb.session.session", "axe_nb.cli"]
)
def test_an_import_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert LATE & set(loaded.stdout.split()) == set()


def test_no_function_is_over_60_lines() -> None:
    lines = {
        f"{module}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module, node in NODES
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: count for name, count in lines.items() if count > 60} == {}


@pytest.mark.req("D-63")
def test_no_docstring_begins_with_a_question_word() -> None:
    question = re.compile(r"(What|Whether|Where|Who|Whom|Whose)\b")
    odd = {
        f"{module}:{node.lineno} {node.value.value[:40]!r}"
        for module, node in NODES
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and question.match(str(node.value.value))
    }
    assert odd == set()


TRANSLATED = re.compile(
    r"(?<!there )\b(is|are|was|were) no (?!longer\b|more\b|one\b)"
    r"|\b(nobody|mend|the books|is as it was|what is (wrong|in the way)|cannot begin|had said)\b"
    r"|\b(says nothing|do not go together|look \w+ up in first)\b",
    re.IGNORECASE,
)
"""Phrases of earlier texts that no native writer would use."""


@pytest.mark.req("D-63")
def test_no_text_of_the_package_uses_a_phrase_that_sounds_translated() -> None:
    odd = {
        f"{module}:{node.lineno} {found[0]!r}"
        for module, node in NODES
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (found := TRANSLATED.search(node.value))
    }
    assert odd == set()
