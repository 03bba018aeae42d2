"""`Grid`, the result of `axe_nb.grid`, and its display as text and as an HTML page.

The page omits durations, so that equal runs result in equal pages; `to_frame` and `summary` include
them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from html import escape
from io import BytesIO
from itertools import compress
from operator import index
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.data_files import read_data, write_data
from axe_nb.agents.files import expand_home
from axe_nb.cell_display.front_end import find_variable
from axe_nb.conversion.jsonable import jsonable, make_frame
from axe_nb.conversion.records import from_json, to_json
from axe_nb.errors import ConfigError
from axe_nb.exploring.grid_statistics import (
    MAX_NAMED,
    Comparison,
    GridRun,
    Square,
    Summary,
    compare_columns,
    find_sign_chance,
    summarize,
)
from axe_nb.paths import open_real_file
from axe_nb.results import NO_AGENT
from axe_nb.secrets import find_filter, redact
from axe_nb.text import (
    align_columns,
    clean,
    format_dollars,
    hide_in_tab,
    list_some,
    one_line,
    plural,
    quote,
    shown_value,
)
from axe_nb.views.appearance import COLOURS, GAP, LINE_HEIGHT, MUTED, PALE, TRACK
from axe_nb.views.html import LEVEL, PLAIN, hide, twin
from axe_nb.views.table import CUT, FIT, cut_line, format_cell, format_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = Mapping[str, Any]
"""One input: its values, keyed by the names used in `{{ }}` in prompt templates."""

MAX_RUNS = 1_000_000
"""Maximum number of runs in a grid, so that an endless iterator of inputs raises an error."""

NAME = "g"
"""Name of a grid in hints such as `g[0, 1]`, used if the grid's variable is unknown."""

COLUMNS = (
    "agent", "model", "params", "repeat", "status", "text", "passed", "score", "reason", "tokens",
    "cost", "seconds",
)  # fmt: skip

HEADS = (
    "", "variant", "passed", "95% interval", "failed to run", "unjudged", "varies",
    "score", "tokens", "cost",
)  # fmt: skip

LABEL, SHARE = 1, 2
"""Indices in `HEADS` of two columns: the variant's label, and its number of passed runs."""

MAX_PAGE = 300_000
"""Approximate maximum length of the HTML for a page's runs, in characters. Trees may take up half
of this; a run whose tree does not fit is shown as one line."""

MAX_INPUTS = 200

LABEL_SIZE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One combination of agent, model, parameters and prompt."""

    label: str
    """Unique label of the variant; the agent's name if the grid has only one variant."""
    agent: str | Agent | None = field(repr=False)
    model: str | None = None
    params: Mapping[str, Any] | None = None
    """Model parameters that override the agent's; None if the variant sets none."""
    prompt: str = field(repr=False)


def name_agent(agent: str | Agent | None) -> str:
    return (agent.name if isinstance(agent, Agent) else agent) or NO_AGENT


class Grid:
    """The result of `axe_nb.grid`: its runs, grouped in a square for each input and variant.

    `grid[input, variant]` takes numbers from 0, or labels from `inputs` and `variants`. A square is
    empty if the grid was stopped before any of the square's runs ended.
    """

    __dir__ = hide_in_tab(
        "add", "choices", "column", "has_grades", "list_places", "note", "planned"
    )

    def __init__(self, rows: Sequence[Row], variants: Sequence[Variant], repeats: int = 1) -> None:
        planned = len(rows) * len(variants) * repeats
        if planned > MAX_RUNS:
            raise ConfigError(f"a grid has at most {MAX_RUNS:,} runs, not {planned:,}")
        self.planned = planned
        """Number of runs in the complete grid."""
        self.rows = tuple(rows)
        """Inputs, each of which maps names in the prompt templates to values."""
        self.inputs = label_inputs(self.rows)
        self.choices = tuple(variants)
        self.variants = tuple(variant.label for variant in self.choices)
        self.repeats = repeats
        """Number of runs in each square."""
        self.note = ""
        """Note for the reader, such as why the grid ended early; empty if there is none."""
        self._runs: dict[tuple[int, int, int], GridRun] = {}

    def add(self, input: int, variant: int, run: GridRun) -> None:
        """Adds a run to the square of its input and variant."""
        self._runs[input, variant, run.repeat] = run

    @property
    def runs(self) -> tuple[GridRun, ...]:
        """Runs so far, ordered by input, then variant, then repeat."""
        return tuple(run for _, run in self.list_places())

    @property
    def failures(self) -> tuple[GridRun, ...]:
        """Runs that did not pass, or whose verdict is unknown; their `reason` says why."""
        return tuple(run for run in self.runs if not run.passed)

    @property
    def has_grades(self) -> bool:
        """True if any score differs from 1 for a passed run or from 0 for a failed run."""
        return any(run.score is not None and run.score != run.passed for run in self.runs)

    @property
    def summary(self) -> tuple[Summary, ...]:
        """Statistics of each variant, in the order of `variants`."""
        return tuple(
            summarize(label, self.column(number)) for number, label in enumerate(self.variants)
        )

    def __getitem__(self, place: tuple[int | str, int | str]) -> Square:
        if not isinstance(place, tuple) or len(place) != 2:
            problem = "a square is selected with grid[input, variant]"
            raise ConfigError(problem, hint="for example grid[0, 1]")
        input = _find(place[0], self.inputs, "input")
        variant = _find(place[1], self.variants, "variant")
        keys = ((input, variant, repeat) for repeat in range(1, self.repeats + 1))
        runs = tuple(self._runs[key] for key in keys if key in self._runs)
        return Square(self.inputs[input], self.variants[variant], runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        size = f"{plural(len(self.rows), 'input')} × {plural(len(self.choices), 'variant')}"
        ended = f", {self.note}" if self.note else ""
        return f"<grid of {size}: {len(self)} of {plural(self.planned, 'run')}{ended}>"

    def __str__(self) -> str:
        return format_grid(self)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        return show_grid(self, find_variable(self) or NAME), {}

    def diff(self, first: int | str, second: int | str) -> Comparison:
        """Compares two variants, given by number or label, on the inputs they have in common."""
        pairs = list(zip(self.column(first), self.column(second), strict=True))
        shares, scores = dict[str, float](), dict[str, float]()
        for one, other in pairs:
            if one.share is not None and other.share is not None:
                shares[one.input] = other.share - one.share
            if one.score is not None and other.score is not None:
                scores[one.input] = other.score - one.score
        # an input on which a variant failed has no score, but counts
        by_score = self.has_grades and len(scores) == len(shares) > 0
        changes = scores if by_score else shares
        better = tuple(name for name, change in changes.items() if change > 0)
        worse = tuple(name for name, change in changes.items() if change < 0)
        return Comparison(
            first=pairs[0][0].variant,
            second=pairs[0][1].variant,
            better=better,
            worse=worse,
            same=len(changes) - len(better) - len(worse),
            chance=find_sign_chance(len(better), len(worse)),
            difference=fmean(shares.values()) if shares else None,
            score=fmean(scores.values()) if scores else None,
            by_score=by_score,
        )

    def column(self, variant: int | str) -> list[Square]:
        """Returns a variant's squares, one per input. `variant` is a number or a label."""
        return [self[number, variant] for number in range(len(self.rows))]

    def list_places(self) -> Iterator[tuple[tuple[int, int, int], GridRun]]:
        """Yields each run with its position (input, variant, repeat), in the order of `runs`."""
        yield from sorted(self._runs.items(), key=lambda item: item[0])

    def to_frame(self) -> Any:
        """Returns the runs as a pandas DataFrame, with the input columns before the run columns.

        The index holds the labels of the variants. If variants differ in their prompts, the last
        column is `prompt`, the template. An input column with the same name as a run column, such
        as `text`, becomes `input_text`. Raises ConfigError if pandas is not installed.
        """
        columns = (*COLUMNS, *["prompt"] * (len({one.prompt for one in self.choices}) > 1))
        names = dict.fromkeys(name for row in self.rows for name in row)
        own = {name: f"input_{name}" if name in columns else name for name in names}
        rows, labels = [], []
        for (input, variant, _), run in self.list_places():
            result, choice = run.result, self.choices[variant]
            facts = (
                result.agent, result.model, jsonable(choice.params or {}), run.repeat,
                result.status, result.text, run.passed, run.score, run.reason,
                result.total_usage.total, result.total_cost, result.duration_ms / 1000,
                choice.prompt,
            )  # fmt: skip
            values = {own[name]: value for name, value in self.rows[input].items()}
            rows.append({**values, **dict(zip(columns, facts, strict=False))})
            labels.append(choice.label)
        frame = make_frame(rows, [*own.values(), *columns])
        frame.index = labels
        frame.index.name = "variant"
        return frame

    def plot(self) -> Figure:
        """Plots quality against cost, and a heat map of the squares.

        Raises ConfigError if matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
            from numpy import array
        except ImportError:
            raise ConfigError("plot needs matplotlib", hint="pip install matplotlib") from None

        class Drawing(Figure):
            def _repr_png_(self) -> bytes:
                file = BytesIO()
                self.savefig(file, format="png", dpi=90)
                return file.getvalue()

        shown = min(len(self.inputs), 60)
        figure = Drawing(figsize=(11, max(3.5, 1.5 + 0.32 * shown)), layout="constrained")
        drawn: Any = figure.subplots(1, 2)
        axes, right = drawn
        plain: Any = {"parse_math": False}  # a dollar sign is not markup
        names = [clean(name) for name in self.variants]
        # draws scores if all runs passed
        is_scored = self.has_grades and not self.failures
        summaries = [summary for summary in self.summary if summary.runs]
        has_costs = all(summary.cost is not None for summary in summaries)
        bars = []
        for one in summaries:
            spent = ((one.cost or 0.0) if has_costs else one.tokens) / one.runs
            quality, around = one.score or 0.0, None
            if not is_scored:
                quality = one.share or 0.0
                sides = (quality - one.interval.low, one.interval.high - quality)
                around = [[max(0.0, side)] for side in sides]
            bars.append(axes.errorbar(spent, quality, yerr=around, fmt="o", capsize=3))
        axes.set_xlabel("US dollars per run" if has_costs else "tokens per run")
        axes.set_ylabel("mean score" if is_scored else "share passed, with 95% interval")
        axes.set_xlim(left=0)  # small differences must look small
        if not is_scored:
            axes.set_ylim(-0.05, 1.05)
            axes.yaxis.set_major_formatter("{x:.0%}")
        if summaries:
            told = [clean(one.variant) for one in summaries]
            legend = axes.legend(bars, told, loc="upper center", bbox_to_anchor=(0.5, -0.12))
            for text in legend.get_texts():
                text.set_parse_math(False)
        columns = [self.column(number) for number in range(len(names))]
        values = [[one.score if is_scored else one.share for one in column] for column in columns]
        ends = {} if is_scored else {"vmin": 0, "vmax": 1}
        image = right.imshow(array(values, float).T, cmap="viridis", aspect="auto", **ends)
        right.set_xticks(range(len(names)), names, rotation=30, ha="right", **plain)
        if len(self.inputs) == shown:
            right.set_yticks(range(shown), [clean(name) for name in self.inputs], **plain)
        label, form = ("mean score", None) if is_scored else ("share passed", "{x:.0%}")
        figure.colorbar(image, ax=right, label=label, format=form)
        return figure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the grid, without secrets, to a file that `axe_nb.load` can read (D-60, D-61).

        Input values without a JSON form are converted to strings. Raises ConfigError if the file
        cannot be written.
        """
        clean = find_filter()
        variants = [asdict(replace(one, agent=name_agent(one.agent))) for one in self.choices]
        plan = jsonable({
            "inputs": self.rows, "variants": variants, "repeats": self.repeats, "note": self.note,
        })  # fmt: skip
        lines = [clean.json(plan)]
        lines += [{"at": place, **to_json(run, clean)} for place, run in self.list_places()]
        write_data(Path(path), "grid", lines, lambda lines: "\n".join(map(json.dumps, lines)))


def load_grid(path: str | os.PathLike[str]) -> Grid:
    """Loads a grid from a file written by `save`. Raises ConfigError for any other file."""
    return read_data(Path(path), "grid", _read, parse=lambda text: text.split("\n"))


def _read(lines: list[str]) -> Grid:
    number = 2
    try:
        plan = json.loads(lines[0])
        variants = [
            Variant(
                label=str(one["label"]), agent=one["agent"], model=one["model"],
                params=one["params"], prompt=str(one["prompt"]),
            )
            for one in plan["variants"]
        ]  # fmt: skip
        rows = [dict(row) for row in plan["inputs"]]
        grid = Grid(rows, variants, max(1, int(plan["repeats"])))
        grid.note = str(plan["note"])
        for line in filter(str.strip, lines[1:]):
            number += 1
            data = json.loads(line)
            input, variant, _ = data["at"]
            run = from_json(GridRun, data)
            if not 1 <= run.repeat <= grid.repeats or min(input, variant) < 0:
                raise ValueError
            labels = {"input": grid.inputs[input], "variant": grid.variants[variant]}
            grid.add(input, variant, replace(run, **labels))
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


def label_inputs(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns labels for inputs: the first column with distinct, non-empty values, else numbers."""
    for column in rows[0]:
        try:
            labels = tuple(one_line(str(row.get(column, "")), LABEL_SIZE) for row in rows)
        except Exception:  # raised by the user's own class
            continue
        if len(set(labels)) == len(labels) and all(labels):
            return labels
    return tuple(map(str, range(len(rows))))


def _find(given: int | str, labels: Sequence[str], what: str) -> int:
    if hasattr(given, "__index__") and -len(labels) <= index(given) < len(labels):
        return index(given) % len(labels)
    if isinstance(given, str):
        if given in labels:
            return labels.index(given)
        known = list_some([*map(quote, labels)], MAX_NAMED)
        raise ConfigError(f"unknown {what} {quote(given)}", hint=f"its {what}s are {known}")
    raise ConfigError(f"no {what} {shown_value(given)}; there are {len(labels)}, numbered from 0")


def show_grid(grid: Grid, name: str = NAME, *, note: str = "") -> dict[str, str]:
    """Returns a grid's MIME bundle. `name` is a Python expression for the grid."""
    inner = "".join(list_parts(grid, name, note))
    html = f"<div class='{PLAIN}' style='line-height:{LINE_HEIGHT}'>{inner}</div>"
    return {"text/html": html, "text/plain": format_grid(grid, note)}


def format_grid(grid: Grid, note: str = "") -> str:
    squares = [("", *map(str, range(len(grid.variants)))), *_list_squares(grid)]
    heads = [note] if note else [*write_verdicts(grid), _describe(grid), *_list_problems(grid)]
    tables = [*align_columns(_tabulate(grid)), "", *align_columns(squares)]
    return clean(redact("\n".join([*heads, *tables, *_list_hidden(grid)])))


def write_verdicts(grid: Grid) -> list[str]:
    """Returns sentences that compare the variants; empty if no comparison is possible."""
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


def _tabulate(grid: Grid) -> list[tuple[str, ...]]:
    rows, has_verdicts = [], bool(grid.failures) or not grid.has_grades
    for number, one in enumerate(grid.summary):
        low, high = one.interval
        rows.append((
            str(number),
            one.variant,
            f"{one.passed} of {one.judged}" if one.judged and has_verdicts else "",
            f"{low:.0%} to {high:.0%}" if one.judged and has_verdicts else "",
            f"{one.failed:,}" if one.failed else "",
            f"{one.unjudged:,}" if one.unjudged else "",
            f"{one.disagree:.0%}" if one.disagree is not None and has_verdicts else "",
            "" if one.score is None or not grid.has_grades else f"{one.score:.3g}",
            f"{one.tokens:,}" if one.runs else "",
            "" if one.cost is None or not one.runs else format_dollars(one.cost),
        ))  # fmt: skip
    used = [any(column) for column in zip(*rows, strict=True)]
    return [tuple(compress(row, used)) for row in (HEADS, *rows)]


def _describe(grid: Grid) -> str:
    size = f"{plural(len(grid.inputs), 'input')} × {plural(len(grid.variants), 'variant')}"
    times = f" × {grid.repeats} repeats" if grid.repeats > 1 else ""
    done = "" if len(grid) == grid.planned else f", {len(grid):,} of {grid.planned:,} runs"
    judged = sum(summary.judge_tokens for summary in grid.summary)
    judge = f", the judge took {judged:,} tokens" if judged else ""
    return f"{size}{times}{done}{judge}{f', {grid.note}' if grid.note else ''}"


def _list_problems(grid: Grid) -> Iterator[str]:
    for who in ("score", "the judge"):
        found = [run for run in grid.runs if run.problem.startswith(who)]
        if found:
            first = f"{found[0].input} × {found[0].variant}: {found[0].problem}"
            runs = plural(len(found), "run")
            yield one_line(f"{who} failed on {runs}; the first: {first}", 300)


def _list_hidden(grid: Grid) -> Iterator[str]:
    """Yields a line about runs that did not complete, and one about inputs that are not shown."""
    failed = [run for run in grid.failures if not run.result.ok]
    if failed:
        first = f"{failed[0].input} × {failed[0].variant}: {failed[0].reason}"
        yield one_line(f"{plural(len(failed), 'run')} did not complete; the first: {first}", 300)
    if (more := len(grid.inputs) - MAX_INPUTS) > 0:
        yield f"… {plural(more, 'more input')}: .to_frame() has all"


def _list_squares(grid: Grid, *, is_whole: bool = False) -> list[tuple[str, ...]]:
    """Returns (label, text of each square) for the inputs that are shown."""
    is_graded, columns = grid.has_grades, range(len(grid.variants))
    squares = []
    for number, label in enumerate(grid.inputs[:MAX_INPUTS]):
        texts = (value for value in grid.rows[number].values() if isinstance(value, str))
        long = (text for text in texts if is_whole and one_line(text, LABEL_SIZE) == label)
        cells = (_describe_square(grid[number, column], is_graded) for column in columns)
        squares.append((next(long, label), *cells))
    return squares


def _describe_square(square: Square, is_graded: bool) -> str:
    """Returns a square's text: a sign, a score or a fraction such as `2/3`."""
    if not square:
        return "–"
    if square.passed == len(square) and is_graded and square.score is not None:
        return f"{square.score:.2g}"
    if 0 < square.passed < len(square):
        return f"{square.passed}/{square.judged}"
    return square[0].look.sign


def list_parts(grid: Grid, name: str, note: str) -> list[str]:
    """Returns the HTML in a fixed number of parts: head, table of variants, inputs, and notes."""
    head = f"<div>{hide(note)}</div>"
    if not note:
        head = "".join(f"<div><b>{hide(line)}</b></div>" for line in write_verdicts(grid))
        head += f"<div style='opacity:{MUTED}'>{hide(_describe(grid))}</div>"
        head += "".join(f"<div>{hide(line)}</div>" for line in _list_problems(grid))
    rows = _list_squares(grid, is_whole=True)
    inner, is_cut = ({}, False) if note else _list_answers(grid, name)
    names = [escape(clean(redact(variant))) for variant in grid.variants]
    heads = [*(f"<span title='{name}'>{n}</span>" for n, name in enumerate(names)), "input"]

    def draw(shown: Sequence[int], room: float = MAX_PAGE) -> str:
        opens = room == MAX_PAGE or sum(len(inner.get(row, "")) for row in shown) < room
        drawn = []
        for row in shown:
            label, *squares = map(format_cell, rows[row])
            if opens and row in inner:
                answers = f"<blockquote style='{LEVEL}'>{inner[row]}</blockquote>"
                label = f"<summary style='{CUT}'>{label}</summary>{answers}"
                label = f"<details style='{FIT}'>{label}</details>"
            else:
                label = cut_line(label)
            drawn.append((*squares, label))
        return format_table(heads, drawn, wide=len(names), is_cut=True)

    numbers = range(len(rows))
    differ = [row for row in numbers if len({*rows[row][1:]}) > 1]
    inputs = [draw(numbers)]
    if note:  # parts that do not change are not sent again
        inputs = [draw(numbers[start : start + 20]) for start in numbers[::20]]
    elif len(differ) < len(rows) and differ:
        size = f"{len(differ)} of {plural(len(rows), 'input')}"
        some = draw(differ, MAX_PAGE / 4)
        chip = f"<details><summary>only where they differ: {size}</summary>{some}</details>"
        inputs = [chip + draw(numbers)]
    rest = [hide(line) for line in _list_hidden(grid)]
    if is_cut:
        rest.insert(0, f"get these squares with <code>{name}[input, variant]</code>")
    return [head, _format_figures(grid), *inputs, "".join(f"<div>{line}</div>" for line in rest)]


def _list_answers(grid: Grid, name: str) -> tuple[dict[int, str], bool]:
    """Returns input number → HTML of the answers of its runs, and whether some had no room."""
    room, answers = MAX_PAGE, dict[int, str]()
    for row in range(min(len(grid.inputs), MAX_INPUTS)):
        if room <= 0:
            return answers, True
        html = ""
        for column in range(len(grid.variants)):
            for at, run in enumerate(grid[row, column]):
                place = f"{name}[{row}, {column}][{at}].result"
                html += _format_run(grid, run, place, room - len(html))
        room -= len(html)
        answers[row] = html
    return answers, False


def _format_run(grid: Grid, run: GridRun, name: str, room: int) -> str:
    look = run.look
    repeat = f" #{run.repeat}" if grid.repeats > 1 else ""
    score = "" if run.score in (None, 0, 1) else f"{run.score:.3g}"
    said = filter(None, [score, one_line(run.result.text, 500), one_line(run.reason, 500)])
    head = (
        f"<span style='display:inline-block;width:96%;{CUT};vertical-align:bottom'>"
        f"<span style=color:{look.colour}>{look.sign}</span> <b>{hide(run.variant)}{repeat}</b> "
        f"<span style=opacity:{MUTED}>{hide(' · '.join(said))}</span></span>"
    )
    if room > MAX_PAGE / 2:
        tree = twin(run.result, name=name)["text/html"]
        if len(tree) <= room - MAX_PAGE / 2:
            return f"<details><summary>{head}</summary>{tree}</details>"
    return f"<div>{head} <code>{name}</code></div>"


def _format_figures(grid: Grid) -> str:
    """Formats the table of variants, with labels, bars and numbers."""
    heads, *rows = _tabulate(grid)
    body = []
    for row, summary in zip(rows, grid.summary, strict=True):
        cells = [hide(text) for text in row]
        cells[LABEL] = f"<b>{cells[LABEL]}</b>"
        # a bar: solid up to the lower end of its interval, pale to the upper
        if summary.judged and HEADS[SHARE] in heads:
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
        body.append(cells)
    right = len(heads) - SHARE - (HEADS[SHARE] in heads)
    return format_table(heads, body, right=right, wide=LABEL)
