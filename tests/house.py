"""`python -m tests.house [COMMIT]`: how large the house is, and how much of it is safety.

A report, not a limit that fails. Without a commit it counts the files as they are.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent

SAFETY: Mapping[str, tuple[str, ...]] = {
    "sandbox": ("sandbox/",),
    "protected names and paths": ("agents/protected.py", "paths.py", "builtin/paths.py"),
    "trust": ("agents/trust.py",),
    "permissions": ("engine/authorize.py", "engine/permissions.py"),
    "masks": ("secrets.py", "providers/protocol.py"),
}
"""Group → the modules and rooms of the package whose only purpose is safety.

Without the tools themselves (`builtin/shell.py` with its guard, `builtin/web.py` with its rules for
addresses), what is kept for undo, and some 400 lines in modules that have other purposes too.
"""

Sources = Mapping[PurePosixPath, str]


def main(arguments: list[str]) -> int:
    package, tests = (
        {path.relative_to(room): text for path, text in files.items()}
        for room in ("axe_nb", "tests")
        if (files := read(room, *arguments))
    )
    for name, count in {**measure(package), "lines of tests": lines(tests)}.items():
        print(f"{count:7,}  {name}")
    groups = {name: lines(select(package, places)) for name, places in SAFETY.items()}
    print(f"{sum(groups.values()):7,}  lines of safety:")
    for name, count in groups.items():
        print(f"{count:15,}  {name}")
    return 0


def read(room: str, commit: str = "") -> Sources:
    """The Python files of a folder, as they are or as they were in a commit."""
    if not commit:
        found = sorted((ROOT / room).rglob("*.py"))
        return {PurePosixPath(path.relative_to(ROOT)): path.read_text() for path in found}
    command = ["git", "-C", str(ROOT), "archive", commit, room]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            PurePosixPath(member.name): file.read().decode()
            for member in tar
            if member.name.endswith(".py") and (file := tar.extractfile(member))
        }


def select(sources: Sources, places: tuple[str, ...]) -> Sources:
    return {
        path: text
        for path, text in sources.items()
        if str(path) in places or f"{path.parts[0]}/" in places
    }


def lines(sources: Sources) -> int:
    return sum(text.count("\n") for text in sources.values())


def measure(package: Sources) -> dict[str, int]:
    trees = {path: ast.parse(text) for path, text in package.items()}
    return {
        "lines of the package": lines(package),
        "modules": len(package),
        "rooms and modules directly in the package": len({path.parts[0] for path in package}),
        "private helpers used once": sum(map(count_used_once, trees.values())),
        "modules with one importer, in the same room": count_lonely(trees),
        "constants named MAX_…": sum(
            isinstance(node, ast.Name) and node.id.startswith("MAX_")
            for tree in trees.values()
            for one in tree.body
            if isinstance(one, ast.Assign | ast.AnnAssign)
            for node in (one.targets if isinstance(one, ast.Assign) else [one.target])
        ),
        "functions behind functools.cache": sum(
            "cache" in ast.unparse(decorator)
            for tree in trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            for decorator in node.decorator_list
        ),
    }


def count_used_once(tree: ast.Module) -> int:
    """Counts functions and methods with a leading underscore that their module mentions once."""
    mentioned = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("_")
        and not node.name.startswith("__")
        and mentioned[node.name] == 1
        for node in ast.walk(tree)
    )


def count_lonely(trees: Mapping[PurePosixPath, ast.Module]) -> int:
    """Counts modules that only one other module imports, which stands beside them."""
    names = {".".join(("axe_nb", *path.with_suffix("").parts)): path for path in trees}
    importers: dict[str, set[PurePosixPath]] = {name: set() for name in names}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in {node.module, *(f"{node.module}.{one.name}" for one in node.names)}:
                    importers.get(name, set()).add(path)
    return sum(
        len(importers[name]) == 1 and next(iter(importers[name])).parent == path.parent
        for name, path in names.items()
        if path.stem != "__init__"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
