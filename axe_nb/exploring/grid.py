"""The grid returned to users: its runs as a table, a data frame, a figure or a file."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from axe_nb.agents.data_files import read_data, write_data
from axe_nb.agents.files import expand_home
from axe_nb.cell_display.front_end import find_variable
from axe_nb.conversion.jsonable import jsonable, make_frame
from axe_nb.conversion.records import to_json
from axe_nb.errors import ConfigError
from axe_nb.exploring.grid_page import NAME, draw, format_grid, show_grid
from axe_nb.exploring.grid_squares import GridRun, Squares
from axe_nb.exploring.grid_variants import Variant, name_agent
from axe_nb.paths import open_real_file
from axe_nb.results import RunResult
from axe_nb.secrets import find_filter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    "agent", "model", "params", "repeat", "status", "text", "passed", "score", "reason", "tokens",
    "cost", "seconds",
)  # fmt: skip

VERDICT = ("passed", "score", "reason", "problem")
"""Fields of a run that are written to its line in a file unchanged."""


class Grid(Squares):
    """The runs of a grid: a square for each variant and input, empty if the grid stopped before it.

    `grid[input, variant]` takes numbers from 0 or labels, which `inputs` and `variants` list.
    """

    def __str__(self) -> str:
        return format_grid(self)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        return show_grid(self, find_variable(self) or NAME), {}

    def to_frame(self) -> Any:
        """Returns the runs as a pandas DataFrame: columns of the inputs, then of the runs.

        The index holds the labels of the variants. An input column with the same name as a run
        column, such as `text`, becomes `input_text`.

        Raises:
            ConfigError: pandas is not installed.
        """
        names = dict.fromkeys(name for row in self.rows for name in row)
        own = {name: f"input_{name}" if name in COLUMNS else name for name in names}
        rows, labels = [], []
        for (input, variant, _), run in self.list_places():
            result, params = run.result, self.choices[variant].params
            facts = (
                result.agent, result.model, jsonable(params or {}), run.repeat, result.status,
                result.text, run.passed, run.score, run.reason, result.total_usage.total,
                result.total_cost, result.duration_ms / 1000,
            )  # fmt: skip
            values = {own[name]: value for name, value in self.rows[input].items()}
            rows.append({**values, **dict(zip(COLUMNS, facts, strict=True))})
            labels.append(self.variants[variant])
        frame = make_frame(rows, [*own.values(), *COLUMNS])
        frame.index = labels
        frame.index.name = "variant"
        return frame

    def plot(self) -> Figure:
        """Returns a figure: the variants by quality and cost, and a heat map of the squares.

        Raises:
            ConfigError: matplotlib is not installed.
        """
        return draw(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the grid, without secrets, to a file for `axe_nb.load` (D-60, D-61).

        Input values without a JSON form become text.

        Raises:
            ConfigError: the file cannot be written.
        """

        def form(grid: Grid) -> str:
            clean = find_filter()
            variants = [
                {
                    "label": one.label, "agent": name_agent(one.agent), "model": one.model,
                    "params": jsonable(one.params), "prompt": one.prompt,
                }
                for one in grid.choices
            ]  # fmt: skip
            plan = {
                "inputs": jsonable(grid.rows), "variants": variants, "repeats": grid.repeats,
                "note": grid.note,
            }  # fmt: skip
            lines = [clean.json(plan)]
            for place, run in grid.list_places():
                verdict = clean.json({name: getattr(run, name) for name in VERDICT})
                judgement = run.judgement and to_json(run.judgement, clean)
                result = to_json(run.result, clean)
                lines.append({"at": place, **verdict, "result": result, "judgement": judgement})
            return "\n".join(json.dumps(line, ensure_ascii=True) for line in lines)

        write_data(Path(path), "grid", self, form)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Grid:
        """Loads a grid from a file that `save` wrote; executes nothing.

        Raises:
            ConfigError: it cannot be read, or is not a grid.
        """
        return read_data(Path(path), "grid", _read, parse=lambda text: text.split("\n"))


def _read(lines: list[str]) -> Grid:
    number = 2
    try:
        plan = json.loads(lines[0])
        variants = [
            Variant(
                label=str(one["label"]), agent=one["agent"] or None, model=one["model"],
                params=one["params"], prompt=str(one["prompt"]),
            )
            for one in plan["variants"]
        ]  # fmt: skip
        rows = [dict(row) for row in plan["inputs"]]
        grid = Grid(rows, variants, max(1, int(plan["repeats"])))
        grid.note = str(plan["note"])
        for line in lines[1:]:
            number += 1
            if not line.strip():
                continue
            read = json.loads(line)
            input, variant, repeat = (int(number) for number in read["at"])
            if not 1 <= repeat <= grid.repeats or min(input, variant) < 0:
                raise ValueError
            judged, score, passed = read["judgement"], read["score"], read["passed"]
            run = GridRun(
                input=grid.inputs[input], variant=grid.variants[variant], repeat=repeat,
                passed=None if passed is None else bool(passed),
                score=None if score is None else float(score),
                reason=str(read["reason"]), problem=str(read["problem"]),
                result=RunResult.from_dict(read["result"]),
                judgement=None if judged is None else RunResult.from_dict(judged),
            )  # fmt: skip
            grid.add(input, variant, run)
    except ConfigError as error:
        raise ConfigError(f"line {number}: {error.message}") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        raise ConfigError(f"line {number} is not part of a grid") from None
    return grid


def is_grid(path: str | os.PathLike[str]) -> bool:
    start = b"axe_nb grid "
    with suppress(OSError, ValueError):
        real = Path(os.path.realpath(expand_home(os.fspath(path))))
        with os.fdopen(open_real_file(real), "rb") as file:
            return file.read(len(start)) == start
    return False
