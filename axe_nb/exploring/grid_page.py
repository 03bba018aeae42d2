"""The display of a grid: which variant is better, its figures and squares; a figure of it. Pure.

The same for the same runs, so it holds no seconds; `to_frame` and `summary` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from io import BytesIO
from itertools import compress
from math import nan
from typing import TYPE_CHECKING, Any

from axe_nb.errors import ConfigError
from axe_nb.exploring.grid_squares import GridRun, Square, Squares, compare_columns
from axe_nb.secrets import redact
from axe_nb.text import align_columns, clean, format_dollars, one_line, plural
from axe_nb.views.appearance import (
    COLOURS,
    GAP,
    LINE_HEIGHT,
    MUTED,
    PALE,
    TEXT_MARGIN,
    TRACK,
)
from axe_nb.views.html import LEVEL, PLAIN, twin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_OPEN = 150_000
"""Maximum bytes of HTML for the trees of all runs, the other runs being shown as expressions; and
for their names and answers, further inputs being shown closed."""

MAX_INPUTS = 200

SQUARE = "2.4em"

NAME = "g"
"""Name for a grid in pointers, if its variable is not known."""

HEADS = (
    "variant", "passed", "95% interval", "incomplete", "unjudged", "verdicts disagree", "score",
    "tokens", "cost",
)  # fmt: skip

LABEL, SHARE = 1, 2
"""Columns of the name of a variant, and of its share."""


def show_grid(grid: Squares, name: str = NAME, *, note: str = "") -> dict[str, str]:
    """Returns the bundle of a grid, which the expression `name` gives.

    `note` is said of a grid that still runs, whose squares do not open yet.
    """
    inner = "".join(_Page(grid, name, note).list_parts())
    html = f"<div class='{PLAIN}' style='line-height:{LINE_HEIGHT}'>{inner}</div>"
    return {"text/html": html, "text/plain": format_grid(grid, note)}


def list_parts(grid: Squares, note: str) -> list[str]:
    return _Page(grid, "", note).list_parts()


def format_grid(grid: Squares, note: str = "") -> str:
    numbers, is_graded = list(map(str, range(len(grid.variants)))), grid.has_grades
    squares: list[tuple[str, ...]] = [("", *numbers)]
    for row, label in enumerate(grid.inputs[:MAX_INPUTS]):
        cells = [
            _describe_square(grid[row, column], is_graded)[0] for column in range(len(numbers))
        ]
        squares.append((label, *cells))
    heads = [note] if note else [*write_verdicts(grid), _describe(grid), *_list_problems(grid)]
    tables = [*align_columns(_tabulate(grid)), "", *align_columns(squares)]
    return clean(redact("\n".join([*heads, *tables, *_list_hidden(grid)])))


def write_verdicts(grid: Squares) -> list[str]:
    """Returns a sentence on what passed, and one on scores between 0 and 1.

    None for a single variant, nor as long as no input has runs of all variants.
    """
    columns = [grid.column(number) for number in range(len(grid.variants))]
    shares = _find_common(columns, lambda square: square.share)
    if len(columns) < 2 or not shares[0]:
        return []
    passed = compare_columns(grid.variants, shares, "passed equally often")
    scores = _find_common(columns, lambda square: square.score)
    if not grid.has_grades or not scores[0]:
        return [passed]
    scored = f"score: {compare_columns(grid.variants, scores, 'scored the same')}"
    have_all_passed = all(share == 1 for column in shares for share in column)
    return [scored] if have_all_passed else [f"passed: {passed}", scored]


def _find_common(
    columns: Sequence[Sequence[Square]], measure: Callable[[Square], float | None]
) -> Sequence[Sequence[float]]:
    values = [[measure(square) for square in column] for column in columns]
    rows = [row for row in zip(*values, strict=True) if None not in row]
    return [[row[number] or 0.0 for row in rows] for number in range(len(columns))]


def _tabulate(grid: Squares) -> list[tuple[str, ...]]:
    """The figures of the variants below their heads, without columns that are empty.

    Scores are among them only if they add to the runs that passed.
    """
    rows = []
    for number, one in enumerate(grid.summary):
        low, high = one.interval
        rows.append((
            str(number),
            one.variant,
            f"{one.passed} of {one.judged}" if one.judged else "",
            f"{low:.0%} to {high:.0%}" if one.judged else "",
            f"{one.failed:,}" if one.failed else "",
            f"{one.unjudged:,}" if one.unjudged else "",
            "" if one.disagree is None else f"{one.disagree:.0%}",
            "" if one.score is None or not grid.has_grades else f"{one.score:.3g}",
            f"{one.tokens:,}" if one.runs else "",
            "" if one.cost is None or not one.runs else format_dollars(one.cost),
        ))  # fmt: skip
    used = [any(column) for column in zip(*rows, strict=True)]
    return [tuple(compress(row, used)) for row in (("", *HEADS), *rows)]


def _describe(grid: Squares) -> str:
    size = f"{plural(len(grid.inputs), 'input')} × {plural(len(grid.variants), 'variant')}"
    times = f" × {grid.repeats} repeats" if grid.repeats > 1 else ""
    done = "" if len(grid) == grid.planned else f", {len(grid):,} of {grid.planned:,} runs"
    judged = sum(summary.judge_tokens for summary in grid.summary)
    judge = f", the judge took {judged:,} tokens" if judged else ""
    return f"{size}{times}{done}{judge}{f', {grid.note}' if grid.note else ''}"


def _list_problems(grid: Squares) -> Iterator[str]:
    """Lines about runs that could not be judged, which no other figure shows."""
    for who in ("score", "the judge"):
        found = [run for run in grid.runs if run.problem.startswith(who)]
        if found:
            first = f"{found[0].input} × {found[0].variant}: {found[0].problem}"
            runs = plural(len(found), "run")
            yield one_line(f"{who} failed on {runs}; the first: {first}", 300)


def _list_hidden(grid: Squares) -> Iterator[str]:
    """Lines about what the table omits: runs that did not complete, inputs that are not shown."""
    failed = [run for run in grid.failures if not run.result.ok]
    if failed:
        first = f"{failed[0].input} × {failed[0].variant}: {failed[0].reason}"
        first = one_line(first, 300)
        yield f"{plural(len(failed), 'run')} did not complete; the first: {first}"
    if (more := len(grid.inputs) - MAX_INPUTS) > 0:
        yield f"… {plural(more, 'more input')}"


def _describe_square(square: Square, is_graded: bool) -> tuple[str, str]:
    """The sign of a square and its colour; its score, if that adds to the sign."""
    if not square:
        return "–", COLOURS["off"]
    if square.passed == len(square) and is_graded and square.score is not None:
        return f"{square.score:.2g}", "inherit"
    if 0 < square.passed < len(square):
        return f"{square.passed}/{square.judged}", COLOURS["limit"]
    look = square[0].look
    return look.sign, look.colour


class _Page:
    def __init__(self, grid: Squares, name: str, note: str) -> None:
        self._grid, self._name, self._note = grid, name, note
        self._tree_room = self._answer_room = MAX_OPEN
        self._is_cut = False
        """True if some inputs do not open, as the page would be too large."""
        self._is_graded = grid.has_grades

    def list_parts(self) -> list[str]:
        """HTML of the head, the figures, each input and the rest; the number of parts is fixed."""
        grid = self._grid
        head = f"<div>{_safe(self._note)}</div>"
        if not self._note:
            head = "".join(f"<div><b>{_safe(line)}</b></div>" for line in write_verdicts(grid))
            head += f"<div style='opacity:{MUTED}'>{_safe(_describe(grid))}</div>"
            head += "".join(f"<div>{_safe(line)}</div>" for line in _list_problems(grid))
        # the numbers of the variants above their squares; hovering over one shows its name
        numbers = "".join(
            f"<span title='{escape(clean(redact(name)))}' style='flex:0 0 {SQUARE}'>{number}</span>"
            for number, name in enumerate(grid.variants)
        )
        style = f"display:flex;opacity:{MUTED};margin-left:{TEXT_MARGIN}"
        numbers = f"<div style='{style}'>{numbers}<span>input</span></div>"
        inputs = [
            f"{'' if row % 20 else numbers}{self._format_input(row)}"
            for row in range(min(len(grid.inputs), MAX_INPUTS))
        ]
        rest = [_safe(line) for line in _list_hidden(grid)]
        if self._is_cut:
            rest.insert(0, f"get these squares with <code>{self._name}[input, variant]</code>")
        rest = [f"<div>{line}</div>" for line in rest]
        return [head, _format_figures(grid), *inputs, "".join(rest)]

    def _format_input(self, row: int) -> str:
        """The squares of an input; open, the answer of each run."""
        grid = self._grid
        squares = [grid[row, column] for column in range(len(grid.variants))]
        drawn = (_describe_square(square, self._is_graded) for square in squares)
        cells = "".join(
            f"<span style='flex:0 0 {SQUARE};color:{colour}'>{sign}</span>"
            for sign, colour in drawn
        )
        label = _safe(grid.inputs[row])
        if self._note or self._answer_room <= 0:
            self._is_cut = not self._note
            return f"<div style='display:flex;margin-left:{TEXT_MARGIN}'>{cells}{label}</div>"
        answers = "".join(
            self._format_run(f"{self._name}[{row}, {column}][{at}]", run)
            for column, square in enumerate(squares)
            for at, run in enumerate(square)
        )
        return (
            f"<details><summary><div style='display:inline-flex;width:96%'>{cells}"
            f"<bdi style='overflow:hidden;text-overflow:ellipsis;white-space:nowrap'>"
            f"{label}</bdi></div></summary>"
            f"<blockquote style='{LEVEL}'>{answers}</blockquote></details>"
        )

    def _format_run(self, name: str, run: GridRun) -> str:
        look = run.look
        repeat = f" #{run.repeat}" if self._grid.repeats > 1 else ""
        score = "" if run.score in (None, 0, 1) else f"{run.score:.3g}"
        answer = one_line(run.result.text, 80)
        reason = one_line(run.reason, 80)
        said = " · ".join(filter(None, [score, answer, reason]))
        head = (
            f"<span style=color:{look.colour}>{look.sign}</span> "
            f"<b>{_safe(run.variant)}{repeat}</b> "
            f"<span style=opacity:{MUTED}>{_safe(said)}</span>"
        )
        self._answer_room -= len(head)
        if self._tree_room > 0:
            tree = twin(run.result, name=f"{name}.result")["text/html"]
            self._tree_room -= len(tree)
            if self._tree_room >= 0:
                return f"<details><summary>{head}</summary>{tree}</details>"
        return f"<div>{head} <code>{name}.result</code></div>"


def _format_figures(grid: Squares) -> str:
    """The table of the variants: names, which may wrap, and bars on the left, figures right."""

    def align(at: int) -> str:
        if at == LABEL:
            return "text-align:left;overflow-wrap:anywhere;min-width:9em"
        return f"text-align:{'left' if at <= SHARE else 'right'};white-space:nowrap"

    heads, *rows = _tabulate(grid)
    head = "".join(f"<th style='{align(at)}'>{text}</th>" for at, text in enumerate(heads))
    body = ""
    for row, summary in zip(rows, grid.summary, strict=True):
        cells = [_safe(text) for text in row]
        cells[LABEL] = f"<b>{cells[LABEL]}</b>"
        if summary.judged:  # a bar: solid up to the lower end of its interval, pale to the upper
            low, high = (round(100 * end) for end in summary.interval)
            share, good = round(100 * (summary.share or 0)), COLOURS["good"]
            stops = (
                f"{good} {low}%,{PALE} 0 {share - 1}%,{good} 0 {share + 1}%,{PALE} 0 {high}%,"
                f"{TRACK} 0"
            )
            cells[SHARE] = (
                "<span style='display:inline-block;width:6em;height:.6em;"
                f"margin-right:{GAP};background:linear-gradient(90deg,{stops})'></span>"
                f"{cells[SHARE]}"
            )
        shown = (f"<td style='{align(at)}'>{cell}</td>" for at, cell in enumerate(cells))
        body += f"<tr>{''.join(shown)}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _safe(text: str) -> str:
    return escape(clean(redact(text)), quote=False)


def draw(grid: Squares) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("plot needs matplotlib", hint="pip install matplotlib") from None

    class Drawing(Figure):
        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=90)
            return file.getvalue()

    shown = min(len(grid.inputs), 60)
    figure = Drawing(figsize=(11, max(3.5, 1.5 + 0.32 * shown)), layout="constrained")
    left, right = figure.subplots(1, 2)
    # the scores, if all runs passed and have grades
    is_scored = grid.has_grades and not grid.failures
    _draw_costs(left, grid, is_scored=is_scored)
    columns = [grid.column(number) for number in range(len(grid.variants))]
    values = [
        [nan if (value := one.score if is_scored else one.share) is None else value for one in row]
        for row in zip(*columns, strict=True)
    ]
    ends = {} if is_scored else {"vmin": 0, "vmax": 1}
    image = right.imshow(values, cmap="viridis", aspect="auto", **ends)
    plain: Any = {"parse_math": False}  # a dollar is a dollar
    names = [clean(name) for name in grid.variants]
    right.set_xticks(range(len(names)), names, rotation=30, ha="right", **plain)
    if len(grid.inputs) == shown:
        right.set_yticks(range(shown), [clean(name) for name in grid.inputs], **plain)
    label, form = ("mean score", None) if is_scored else ("share passed", "{x:.0%}")
    figure.colorbar(image, ax=right, label=label, format=form)
    return figure


def _draw_costs(axes: Any, grid: Squares, *, is_scored: bool) -> None:
    """Draws the quality with its interval against the cost of a run, from 0 on."""
    summaries = [summary for summary in grid.summary if summary.runs]
    has_costs = all(summary.cost is not None for summary in summaries)
    bars, most = [], 0.0
    for one in summaries:
        spent = ((one.cost or 0.0) if has_costs else one.tokens) / one.runs
        most = max(most, spent)
        quality, around = one.score or 0.0, None
        if not is_scored:
            quality = one.share or 0.0
            ends = (quality - one.interval.low, one.interval.high - quality)
            around = [[max(0.0, end)] for end in ends]
        bars.append(axes.errorbar(spent, quality, yerr=around, fmt="o", capsize=3))
    axes.set_xlabel("US dollars per run" if has_costs else "tokens per run")
    axes.set_ylabel("mean score" if is_scored else "share passed, with 95% interval")
    # from 0, so that a small difference looks small
    axes.set_xlim(0, 1.1 * most or 1.0)
    if not is_scored:
        axes.set_ylim(-0.05, 1.05)
        axes.yaxis.set_major_formatter("{x:.0%}")
    if summaries:
        legend = axes.legend(
            bars, [one.variant for one in summaries], fontsize="small",
            loc="upper center", bbox_to_anchor=(0.5, -0.12),
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)
