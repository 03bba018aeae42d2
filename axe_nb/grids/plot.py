"""A grid as a figure: quality against cost, and a heat map of the inputs.

Source: product.md "Exploring"; cluster-facts (matplotlib draws the same bytes each time).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from axe_nb.errors import ConfigError
from axe_nb.grids.outcome import Square
from axe_nb.grids.statistics import Interval, find_mean_interval
from axe_nb.grids.summary import Summary
from axe_nb.grids.verdict import has_grades
from axe_nb.text import clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from axe_nb.grids.squares import Squares

HEIGHT = 0.32
"""Inches of a row of the heat map."""

MAX_ROWS = 60
"""Inputs that the heat map names; more are drawn without names."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of quality."""

    name: str
    of: Callable[[Square], float | None]
    """That of a square; None if it has none."""
    find: Callable[[Summary, Sequence[Square]], tuple[float, Interval | None]]
    """That of a variant, with its interval if there is one."""


def _find_score(summary: Summary, squares: Sequence[Square]) -> tuple[float, Interval | None]:
    scores = [square.score for square in squares if square.score is not None]
    return summary.score or 0.0, find_mean_interval(scores)


SHARE = Measure(
    "share passed",
    lambda square: square.share,
    lambda summary, _: (summary.share or 0.0, summary.interval),
)
SCORE = Measure("mean score", lambda square: square.score, _find_score)
"""In place of the share, if all runs passed and have grades."""


def draw(grid: Squares) -> Figure:
    """Draws a grid.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("plot needs matplotlib", hint="pip install matplotlib") from None

    class Drawing(Figure):
        """A figure that notebooks show without pyplot."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=90)
            return file.getvalue()

    rows = min(len(grid.inputs), MAX_ROWS)
    figure = Drawing(figsize=(11, max(3.5, 1.5 + HEIGHT * rows)), layout="constrained")
    left, right = figure.subplots(1, 2)
    measure = SCORE if has_grades(grid) and not grid.failures else SHARE
    _draw_cost(left, grid, measure)
    _draw_squares(figure, right, grid, measure)
    return figure


def _draw_cost(axes: Any, grid: Squares, measure: Measure) -> None:
    """Draws the quality with its interval against what a run costs, from 0 on."""
    summaries = [(number, one) for number, one in enumerate(grid.summary) if one.runs]
    has_costs = all(summary.cost is not None for _, summary in summaries)
    bars = []
    spent = [((one.cost or 0.0) if has_costs else one.tokens) / one.runs for _, one in summaries]
    for (number, summary), each in zip(summaries, spent, strict=True):
        quality, interval = measure.find(summary, grid.column(number))
        around = interval and [
            [max(0.0, quality - interval.low)],
            [max(0.0, interval.high - quality)],
        ]
        bars.append(axes.errorbar(each, quality, yerr=around, fmt="o", capsize=3))
    axes.set_xlabel("US dollars per run" if has_costs else "tokens per run")
    axes.set_ylabel(f"{measure.name}, with 95% interval")
    # from 0, so that a small difference looks small
    axes.set_xlim(0, 1.1 * max(spent, default=0.0) or 1.0)
    if measure is SHARE:
        axes.set_ylim(-0.05, 1.05)
        axes.yaxis.set_major_formatter("{x:.0%}")
    if summaries:
        legend = axes.legend(
            bars, [summary.variant for _, summary in summaries], fontsize="small",
            loc="upper center", bbox_to_anchor=(0.5, -0.12),
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)


def _draw_squares(figure: Any, axes: Any, grid: Squares, measure: Measure) -> None:
    """Draws the quality of each square; one without runs stays empty."""
    found = [
        [measure.of(grid[row, column]) for column in range(len(grid.variants))]
        for row in range(len(grid.inputs))
    ]
    values = [[float("nan") if value is None else value for value in row] for row in found]
    ends = {"vmin": 0, "vmax": 1} if measure is SHARE else {}
    image = axes.imshow(values, cmap="viridis", aspect="auto", **ends)
    names = [clean(name) for name in grid.variants]
    plain: Any = {"parse_math": False}  # a dollar is a dollar
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", **plain)
    if len(grid.inputs) <= MAX_ROWS:
        axes.set_yticks(range(len(grid.inputs)), [clean(name) for name in grid.inputs], **plain)
    form = "{x:.0%}" if measure is SHARE else None
    figure.colorbar(image, ax=axes, label=measure.name, format=form)
