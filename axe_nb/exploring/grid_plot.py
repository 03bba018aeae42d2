"""A grid as a figure: quality against cost, and a heat map of the inputs."""

from __future__ import annotations

from io import BytesIO
from math import nan
from typing import TYPE_CHECKING, Any

from axe_nb.errors import ConfigError
from axe_nb.exploring.grid_statistics import Interval, find_mean_interval
from axe_nb.exploring.grid_verdict import has_grades
from axe_nb.text import clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from axe_nb.exploring.grid_squares import Squares

HEIGHT = 0.32
"""Inches of a row of the heat map."""

MAX_ROWS = 60
"""Inputs that the heat map names; more are drawn without names."""


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

    figure = Drawing(
        figsize=(11, max(3.5, 1.5 + HEIGHT * min(len(grid.inputs), MAX_ROWS))),
        layout="constrained",
    )
    left, right = figure.subplots(1, 2)
    # the scores, if all runs passed and have grades
    is_scored = has_grades(grid) and not grid.failures
    _draw_cost(left, grid, is_scored=is_scored)
    _draw_squares(figure, right, grid, is_scored=is_scored)
    return figure


def _draw_cost(axes: Any, grid: Squares, *, is_scored: bool) -> None:
    """Draws the quality with its interval against what a run costs, from 0 on."""
    summaries = [(number, one) for number, one in enumerate(grid.summary) if one.runs]
    has_costs = all(summary.cost is not None for _, summary in summaries)
    bars, most = [], 0.0
    for number, one in summaries:
        spent = ((one.cost or 0.0) if has_costs else one.tokens) / one.runs
        most = max(most, spent)
        quality = one.share or 0.0
        interval: Interval | None = one.interval
        if is_scored:
            scores = [square.score for square in grid.column(number) if square.score is not None]
            quality, interval = one.score or 0.0, find_mean_interval(scores)
        around = interval and [
            [max(0.0, quality - interval.low)],
            [max(0.0, interval.high - quality)],
        ]
        bars.append(axes.errorbar(spent, quality, yerr=around, fmt="o", capsize=3))
    axes.set_xlabel("US dollars per run" if has_costs else "tokens per run")
    axes.set_ylabel(f"{_name(is_scored)}, with 95% interval")
    # from 0, so that a small difference looks small
    axes.set_xlim(0, 1.1 * most or 1.0)
    if not is_scored:
        axes.set_ylim(-0.05, 1.05)
        axes.yaxis.set_major_formatter("{x:.0%}")
    if summaries:
        legend = axes.legend(
            bars, [summary.variant for _, summary in summaries], fontsize="small",
            loc="upper center", bbox_to_anchor=(0.5, -0.12),
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)


def _draw_squares(figure: Any, axes: Any, grid: Squares, *, is_scored: bool) -> None:
    """Draws the quality of each square; one without runs stays empty."""
    columns = [grid.column(number) for number in range(len(grid.variants))]
    found = [
        [one.score if is_scored else one.share for one in row] for row in zip(*columns, strict=True)
    ]
    values = [[nan if value is None else value for value in row] for row in found]
    ends = {} if is_scored else {"vmin": 0, "vmax": 1}
    image = axes.imshow(values, cmap="viridis", aspect="auto", **ends)
    names = [clean(name) for name in grid.variants]
    plain: Any = {"parse_math": False}  # a dollar is a dollar
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", **plain)
    if len(grid.inputs) <= MAX_ROWS:
        axes.set_yticks(range(len(grid.inputs)), [clean(name) for name in grid.inputs], **plain)
    form = None if is_scored else "{x:.0%}"
    figure.colorbar(image, ax=axes, label=_name(is_scored), format=form)


def _name(is_scored: bool) -> str:
    return "mean score" if is_scored else "share passed"
