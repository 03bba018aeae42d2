"""The runs of a square of a grid, and their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

from axe_nb.exploring.grid_statistics import find_mean
from axe_nb.results import RunResult
from axe_nb.secrets import redact
from axe_nb.text import clean, one_line, plural
from axe_nb.views.appearance import LOOKS, Look

MAX_TOLD = 100
"""Characters shown of an answer and the reason for its verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRun:
    """One run of a grid, and its verdict."""

    input: str
    """Label of its input."""
    variant: str
    """Label of its variant."""
    repeat: int = 1
    """From 1."""
    result: RunResult
    passed: bool | None
    """True if it completed, met the expectations, and no score was False; None = it is not known,
    as `score=` failed, or the grid ended in mid-run."""
    score: float | None = None
    """The score of `score=` or the judge; a bool counts as 0 or 1. None = no score."""
    reason: str = ""
    """Why it did not pass, the reason for the score, and `problem`."""
    problem: str = ""
    """The failure of `score=` or of the judge, which does not count against the run."""
    judgement: RunResult | None = field(default=None, repr=False)
    """The run of the judge; its tokens do not count for the variant."""

    @property
    def denied(self) -> int:
        """Number of calls that were denied, those of sub-agents included."""
        return sum(
            answer.is_denied
            for result in self.result.walk()
            for turn in result.log
            for answer in turn.results
        )


class Square(Sequence[GridRun]):
    """The runs of one variant on one input, one per repeat; fewer if the grid was stopped."""

    def __init__(self, input_label: str, variant_label: str, runs: Sequence[GridRun]) -> None:
        self.input = input_label
        self.variant = variant_label
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, index: int) -> GridRun: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[GridRun]: ...

    def __getitem__(self, index: int | slice) -> GridRun | Sequence[GridRun]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        runs = plural(len(self), "run")
        lines = [f"{self.input} × {self.variant}: {self.passed} of {runs} passed"]
        for run in self:
            said = clean(" · ".join(filter(None, [run.result.text, run.reason])))
            lines.append(f"  {find_look(run).sign} {one_line(redact(said), MAX_TOLD)}")
        return "\n".join(lines)

    @property
    def result(self) -> RunResult | None:
        """The result of the first run; None if there is none."""
        return self._runs[0].result if self._runs else None

    @property
    def passed(self) -> int:
        """Number of runs that passed."""
        return sum(run.passed is True for run in self._runs)

    @property
    def judged(self) -> int:
        """Number of runs of which it is known whether they passed."""
        return sum(run.passed is not None for run in self._runs)

    @property
    def disagrees(self) -> bool:
        """True if some of its repeats passed and some did not."""
        return 0 < self.passed < self.judged

    @property
    def share(self) -> float | None:
        """Share of its judged runs that passed; None if there are none."""
        return self.passed / self.judged if self.judged else None

    @property
    def score(self) -> float | None:
        """Mean of the scores; None if there are none."""
        scores = [run.score for run in self._runs if run.score is not None]
        return find_mean(scores) if scores else None


def find_look(run: GridRun) -> Look:
    """Returns the sign and the colour of what became of a run."""
    if run.result.status == "cancelled":
        return LOOKS["cancelled"]
    return LOOKS["asks" if run.passed is None else "completed" if run.passed else "error"]
