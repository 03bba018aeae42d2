"""The grid that a user has: its runs, as a table, a frame, a figure, a file.

Source: product.md "Exploring".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from axe_nb.agents.agent import Agent
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.libraries import make_frame
from axe_nb.front_end import find_variable
from axe_nb.grids.labels import Agreement, ask_labels, measure, read_labels
from axe_nb.grids.outcome import GridRun
from axe_nb.grids.pairs import Preference, ask_pairs
from axe_nb.grids.plot import draw
from axe_nb.grids.saved import load_grid, save_grid
from axe_nb.grids.squares import Squares
from axe_nb.grids.variants import Variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    "agent", "model", "params", "repeat", "status", "text", "passed", "score", "reason", "tokens",
    "cost", "seconds",
)  # fmt: skip
"""Of the data frame, after those of the inputs."""


class Grid(Squares):
    """The runs of each variant on each input. Squares that were not reached are empty.

    `grid[input, variant]` takes numbers from 0 or labels, which `inputs` and `variants` list.
    """

    def __str__(self) -> str:
        from axe_nb.grids.page import format_grid  # which shows grids

        return format_grid(self)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        from axe_nb.grids.page import NAME, show_grid

        return show_grid(self, find_variable(self) or NAME), {}

    def label(self, column: str | None = None) -> Agreement:
        """Compares the verdicts with a person's labels: yes or no with passed, numbers with scores.

        Args:
            column: input column with the labels; None = asks you about each run.

        Raises:
            ConfigError: there is no such column, or a label is not yes, no or a number.
        """
        labelled = ask_labels(self, input) if column is None else read_labels(self, column)
        return measure(labelled, self.repeats)

    def judge(self, first: int | str, second: int | str, judge: str | Agent) -> Preference:
        """Asks a judge which of two variants answered each input better, in both orders. Blocks.

        Args:
            first: number or label of a variant.
            second: number or label of the other one.
            judge: the agent or its name.

        Raises:
            ConfigError: the judge could not be asked.
        """
        return ask_pairs(self.column(first), self.column(second), judge)

    def to_frame(self) -> Any:
        """Returns the runs as a pandas DataFrame: columns of the inputs, then of the runs.

        The index holds the labels of the variants. An input column with the same name as a run
        column, such as `text`, becomes `input_text`.

        Raises:
            ConfigError: pandas is not installed.
        """
        names = dict.fromkeys(name for row in self.rows for name in row)
        own = {name: f"input_{name}" if name in COLUMNS else name for name in names}
        places = list(self.list_places())
        rows = [
            {
                **{own[name]: value for name, value in self.rows[input].items()},
                **_list_facts(self.choices[variant], run),
            }
            for (input, variant, _), run in places
        ]
        frame = make_frame(rows, [*own.values(), *COLUMNS])
        frame.index = [self.variants[variant] for (_, variant, _), _ in places]
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
        save_grid(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Grid:
        """Returns the grid from a file that `save` wrote; executes nothing.

        Raises:
            ConfigError: it cannot be read, or is not a grid.
        """
        return load_grid(path, cls)


def _list_facts(variant: Variant, run: GridRun) -> Mapping[str, Any]:
    result = run.result
    facts = (
        result.agent, result.model, jsonable(variant.params or {}), run.repeat, result.status,
        result.text, run.passed, run.score, run.reason, result.total_usage.total,
        result.total_cost, result.duration_ms / 1000,
    )  # fmt: skip
    return dict(zip(COLUMNS, facts, strict=True))
