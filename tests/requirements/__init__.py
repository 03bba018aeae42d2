"""Which requirements the tests cover: rows are named by `@pytest.mark.req("A-2.1", …)`.

The tests are read, not imported, so the answer does not depend on what can run here.
"""

from __future__ import annotations

import ast
import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Coverage:
    """What the register asks for, set against what the tests name."""

    rows: Mapping[str, str]
    """Id → where it comes from, in the order of the register."""
    exempt: Mapping[str, Mapping[str, str]]
    """Kind of exemption → id → reason."""
    named: Mapping[str, tuple[str, ...]]
    """Id → the places, `file:line`, of the tests that name it."""
    mistakes: tuple[str, ...]
    """Marks that name no row, one line each."""

    @property
    def excused(self) -> dict[str, str]:
        """Id → reason, whatever the kind."""
        return {row: reason for kind in self.exempt.values() for row, reason in kind.items()}

    def missing(self, families: str) -> list[str]:
        """The rows of the families (first letters) that neither a test nor an exemption names."""
        done = self.named.keys() | self.excused
        return [row for row in self.rows if row[0] in families and row not in done]


def coverage(tests: Path = HERE.parent) -> Coverage:
    """The state of the tests below `tests`."""
    rows = tomllib.loads((HERE / "rows.toml").read_text("utf-8"))
    exempt = tomllib.loads((HERE / "exempt.toml").read_text("utf-8"))
    named: dict[str, tuple[str, ...]] = {}
    mistakes: list[str] = []
    for file in sorted(tests.rglob("test_*.py")):
        for line, row in marks(file.read_text("utf-8")):
            place = f"{file.relative_to(tests.parent).as_posix()}:{line}"
            if row in rows:
                named[row] = (*named.get(row, ()), place)
            else:
                near = ", ".join(difflib.get_close_matches(row, rows, 3, 0))
                mistakes.append(f"{place}: {row} is no row; near: {near}")
    return Coverage(rows, exempt, named, tuple(mistakes))


def marks(source: str) -> Iterator[tuple[int, str]]:
    """(line, id) of each argument of each `mark.req(…)`; what is no literal as it is written."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(ast.Attribute(attr="mark"), attr="req"), args=args):
                for argument in args:
                    literal = isinstance(argument, ast.Constant)
                    yield argument.lineno, str(argument.value if literal else ast.unparse(argument))
