"""A person's labels of the runs of a grid, and how often its verdicts agree with them.

Source: product.md "Exploring".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from axe_nb.errors import ConfigError
from axe_nb.grids.outcome import GridRun
from axe_nb.grids.statistics import Interval, find_inputs_interval
from axe_nb.text import clean, cut_chars, list_some, plural, quote, suggestion

if TYPE_CHECKING:
    from axe_nb.grids.squares import Squares

MAX_SHOWN = 2_000
"""Characters of an answer that a person is shown."""

MAX_NAMED = 5
"""Squares that an agreement names."""

CHOICES = "[y]es, it is right  [n]o  [s]kip  [q]uit"

MISSING = {"", "none", "nan", "nat", "<na>"}
"""Words of a row without a label, also in columns of pandas."""

YES = {"y", "yes", "true", "1", "right", "pass", "passed"}
NO = {"n", "no", "false", "0", "wrong", "fail", "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A person's labels beside the verdicts of a grid."""

    count: int
    """Labelled runs."""
    same: int
    """Runs on which the grid and the person agree."""
    interval: Interval
    """The interval of the share on which they agree: inputs count, not their runs.

    Of a single input it is that of its runs.
    """
    differ: tuple[str, ...]
    """The other runs, as input × variant, with the number of the repeat."""
    distance: float | None
    """Mean distance of the scores from labels that are numbers; None without such labels."""
    scores: tuple[float | None, float | None] = (None, None)
    """Mean scores of the runs labelled right, and wrong; None if none has a score but 0 or 1."""

    def __str__(self) -> str:
        if not self.count:
            return "no run has a label"
        if self.distance is not None:
            labels = plural(self.count, "label")
            return f"{labels}, mean distance of the scores {self.distance:.3g}"
        low, high = self.interval
        others = f"; it disagrees on {list_some(self.differ, MAX_NAMED)}" if self.differ else ""
        share = f"{self.same / self.count:.0%} ({low:.0%} to {high:.0%})"
        said = f"the grid agrees with {self.same} of {plural(self.count, 'label')}, {share}{others}"
        return "\n".join(filter(None, [said, self._describe_scores()]))

    def _describe_scores(self) -> str:
        """The mean scores of what was found right and wrong: a judge that sees it, parts them."""
        right, wrong = self.scores
        if right is None or wrong is None:
            return ""
        return f"mean score of the runs labelled right {right:.3g}, of the others {wrong:.3g}"

    __repr__ = __str__


def read_labels(grid: Squares, column: str) -> Iterator[tuple[GridRun, bool | float]]:
    """Yields the labelled runs with the labels that a column of the inputs has.

    Raises:
        ConfigError: there is no such column, or a label is none.
    """
    names = list(dict.fromkeys(name for row in grid.rows for name in row))
    if column not in names:
        raise ConfigError(f"no column {quote(column)}", hint=suggestion(column, names))
    words = [_to_word(row.get(column)) for row in grid.rows]
    is_yes_or_no = all(word in YES | NO for word in words if word)
    for word, label in zip(words, grid.inputs, strict=True):
        if not word:
            continue
        value = word in YES if is_yes_or_no else _read_number(word, label)
        for variant in grid.variants:
            yield from ((run, value) for run in grid[label, variant])


def _to_word(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # bools of a column that lacks some
        value = int(value)
    word = str(value).strip().lower()
    return "" if word in MISSING else word


def _read_number(word: str, label: str) -> float:
    try:
        return float(word)
    except ValueError:
        shown = quote(cut_chars(clean(word), 40, "…"))
        raise ConfigError(f"input {label}: the label {shown} is not yes, no or a number") from None


def ask_labels(grid: Squares, ask: Callable[[str], str]) -> Iterator[tuple[GridRun, bool]]:
    """Asks a person about each run; yields the labelled ones.

    Args:
        grid: the grid.
        ask: shows a text and returns a line.
    """
    for number, run in enumerate(grid.runs, 1):
        # not the variant: who knows whose answer it is labels what they hope for
        place = f"{run.input} ({number} of {len(grid)})"
        prompt = f"\n{place}\n{cut_chars(clean(run.result.text), MAX_SHOWN)}"
        while (word := ask(f"{prompt}\n{CHOICES}: ").strip().lower()) not in YES | NO:
            if word in ("q", "quit"):
                return
            if word in ("s", "skip"):
                break
            prompt = "Please answer with one of these letters, or the whole word."
        else:
            yield run, word in YES


def measure(labelled: Iterator[tuple[GridRun, bool | float]], repeats: int = 1) -> Agreement:
    """Compares labels with verdicts: yes and no with what passed, numbers with scores.

    Args:
        labelled: runs with their labels.
        repeats: runs of a square.
    """
    agreed: dict[str, list[bool]] = defaultdict(list)
    differ, distances = [], []
    scores: dict[bool, list[float]] = {True: [], False: []}
    for run, label in labelled:
        if isinstance(label, bool) and run.score is not None:
            scores[label].append(run.score)
        if not isinstance(label, bool):
            if run.score is not None:
                distances.append(abs(run.score - label))
        elif run.passed is not None:
            is_same = run.passed == label
            agreed[run.input].append(is_same)
            if not is_same:
                repeat = f" #{run.repeat}" if repeats > 1 else ""
                differ.append(f"{run.input} × {run.variant}{repeat}")
    counts = [(sum(those), len(those)) for those in agreed.values()]
    same = sum(number for number, _ in counts)
    has_grades = any(score not in (0, 1) for some in scores.values() for score in some)
    return Agreement(
        count=same + len(differ) + len(distances),
        same=same,
        interval=find_inputs_interval(counts),
        differ=tuple(differ),
        distance=fmean(distances) if distances else None,
        scores=(_find_mean(scores[True]), _find_mean(scores[False]))
        if has_grades
        else (None, None),
    )


def _find_mean(scores: Sequence[float]) -> float | None:
    return fmean(scores) if scores else None
