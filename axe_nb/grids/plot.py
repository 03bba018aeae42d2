"""A grid as a figure: quality against cost, and a heat map of the inputs.

Source: product.md "Exploring"; cluster-facts (matplotlib draws the same bytes each time).
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from axe_nb.errors import ConfigError
from axe_nb.text import clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from axe_nb.grids.squares import Squares

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

    rows = min(len(grid.inputs), MAX_ROWS)
    figure = Drawing(figsize=(11, max(3.5, 1.5 + HEIGHT * rows)), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_cost(left, grid)
    _draw_squares(figure, right, grid)
    return figure


def _draw_cost(axes: Any, grid: Squares) -> None:
    """Draws the share that passed with its interval against what a run costs."""
    summaries = [summary for summary in grid.summary if summary.runs]
    has_costs = all(summary.cost is not None for summary in summaries)
    bars = []
    for summary in summaries:
        spent = (summary.cost or 0.0) if has_costs else summary.tokens
        share, (low, high) = summary.share or 0.0, summary.interval
        bar = axes.errorbar(
            spent / summary.runs, share, yerr=[[max(0.0, share - low)], [max(0.0, high - share)]],
            fmt="o", capsize=3,
        )  # fmt: skip
        bars.append(bar)
    axes.set_xlabel("US dollars per run" if has_costs else "tokens per run")
    axes.set_ylabel("share passed, with 95 % interval")
    axes.set_ylim(-0.05, 1.05)
    if summaries:
        legend = axes.legend(
            bars, [summary.variant for summary in summaries], fontsize="small",
            loc="upper center", bbox_to_anchor=(0.5, -0.2),
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)


def _draw_squares(figure: Any, axes: Any, grid: Squares) -> None:
    """Draws the share that passed in each square; one without runs stays empty."""
    shares = [
        [grid[row, column].share for column in range(len(grid.variants))]
        for row in range(len(grid.inputs))
    ]
    values = [[float("nan") if share is None else share for share in row] for row in shares]
    image = axes.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    names = [clean(name) for name in grid.variants]
    plain: Any = {"parse_math": False}  # a dollar is a dollar
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", **plain)
    if len(grid.inputs) <= MAX_ROWS:
        axes.set_yticks(range(len(grid.inputs)), [clean(name) for name in grid.inputs], **plain)
    figure.colorbar(image, ax=axes, label="share passed")
