"""The runs of a grid by place: variants × inputs × repeats, as far as they got."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index

from axe_nb.conversion.own_text import shown_value
from axe_nb.errors import ConfigError
from axe_nb.exploring.grid_inputs import MAX_RUNS, Row, label_inputs
from axe_nb.exploring.grid_outcome import GridRun, Square
from axe_nb.exploring.grid_summary import Comparison, Summary, compare, summarize
from axe_nb.exploring.grid_variants import Variant
from axe_nb.text import list_some, plural, quote, suggestion

MAX_NAMED = 5
"""Labels that an error names."""


class Squares:
    """Runs of each variant on each input. Squares are empty where the grid was stopped.

    `grid[input, variant]` takes numbers from 0 or labels, which `inputs` and `variants` list.
    """

    def __init__(self, rows: Sequence[Row], variants: Sequence[Variant], repeats: int = 1) -> None:
        """Creates a grid without runs.

        Raises:
            ConfigError: it would have more than `MAX_RUNS` runs.
        """
        planned = len(rows) * len(variants) * repeats
        if planned > MAX_RUNS:
            raise ConfigError(f"a grid has at most {MAX_RUNS:,} runs, not {planned:,}")
        self.rows = tuple(rows)
        """The inputs: name in the template → value."""
        self.inputs = label_inputs(self.rows)
        """Labels of the inputs."""
        self.choices = tuple(variants)
        """The variants, as they were asked for."""
        self.variants = tuple(variant.label for variant in self.choices)
        """Labels of the variants."""
        self.repeats = repeats
        """Runs of each square."""
        self.note = ""
        """Facts that a reader has to know, such as why it ended early; empty = there are none."""
        self._runs: dict[tuple[int, int, int], GridRun] = {}

    def add(self, input: int, variant: int, run: GridRun) -> None:
        """Puts a run into its square."""
        self._runs[input, variant, run.repeat] = run

    @property
    def planned(self) -> int:
        """Number of runs of the whole grid."""
        return len(self.rows) * len(self.choices) * self.repeats

    @property
    def runs(self) -> tuple[GridRun, ...]:
        """The runs so far, by input, then variant, then repeat."""
        return tuple(self._runs[key] for key in sorted(self._runs))

    @property
    def failures(self) -> tuple[GridRun, ...]:
        """The runs that did not pass; `reason` says why."""
        return tuple(run for run in self.runs if not run.passed)

    @property
    def summary(self) -> tuple[Summary, ...]:
        """The figures of each variant."""
        return tuple(
            summarize(label, self.column(number)) for number, label in enumerate(self.variants)
        )

    def __getitem__(self, place: tuple[int | str, int | str]) -> Square:
        if not isinstance(place, tuple) or len(place) != 2:
            problem = "a square is selected with grid[input, variant]"
            raise ConfigError(problem, hint="for example grid[0, 1]")
        return self._square(
            _find(place[0], self.inputs, "input"), _find(place[1], self.variants, "variant")
        )

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        size = f"{plural(len(self.rows), 'input')} × {plural(len(self.choices), 'variant')}"
        ended = f", {self.note}" if self.note else ""
        return f"<grid of {size}: {len(self)} of {plural(self.planned, 'run')}{ended}>"

    def diff(self, first: int | str, second: int | str) -> Comparison:
        """Compares two variants on the inputs that both have runs of.

        Args:
            first: number or label of the variant to compare with.
            second: number or label of the other one.
        """
        one, other = self.column(first), self.column(second)
        return compare(one, other, (one[0].variant, other[0].variant))

    def column(self, variant: int | str) -> list[Square]:
        """Returns the squares of a variant, one per input.

        Args:
            variant: its number or label.
        """
        number = _find(variant, self.variants, "variant")
        return [self._square(at, number) for at in range(len(self.rows))]

    def list_places(self) -> Iterator[tuple[tuple[int, int, int], GridRun]]:
        """Yields (input, variant, repeat) with its run, in the order of `runs`."""
        yield from ((key, self._runs[key]) for key in sorted(self._runs))

    def _square(self, input: int, variant: int) -> Square:
        keys = ((input, variant, repeat) for repeat in range(1, self.repeats + 1))
        runs = [self._runs[key] for key in keys if key in self._runs]
        return Square(self.inputs[input], self.variants[variant], runs)


def _find(given: int | str, labels: Sequence[str], what: str) -> int:
    """Returns the number of an input or variant."""
    if hasattr(given, "__index__") and -len(labels) <= index(given) < len(labels):
        return index(given) % len(labels)
    if isinstance(given, str):
        if given in labels:
            return labels.index(given)
        known = f"its {what}s are {list_some(labels, MAX_NAMED)}"
        hint = suggestion(given, labels) or known
        raise ConfigError(f"unknown {what} {quote(given)}", hint=hint)
    raise ConfigError(f"no {what} {shown_value(given)}; there are {len(labels)}, numbered from 0")
