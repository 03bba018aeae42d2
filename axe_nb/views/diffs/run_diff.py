"""`a.diff(b)`: the difference of two trees of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.results import RunResult
from axe_nb.secrets import find_filter
from axe_nb.views.diffs.compare import Change, RunPair, compare_runs, find_first, list_changes
from axe_nb.views.diffs.pairing import find_path
from axe_nb.views.diffs.shown import (
    SECONDS,
    Figure,
    Outline,
    describe,
    format_html,
    format_text,
    list_figures,
    make_outline,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """The difference between two runs and all runs below them; a notebook shows it as a tree."""

    pair: RunPair = field(repr=False)
    """The two runs, aligned."""
    changes: tuple[Change, ...]
    """All changes, in reading order: what an agent was told, its turns with their calls and child
    runs, and how it ended."""
    same_path: bool
    """True if the same agents called the same tools in the same order, whatever the texts."""
    figures: tuple[Figure, ...] = field(repr=False)
    """Requests, tokens, money and time of the trees, side by side."""
    names: tuple[str, str] = ("a", "b")
    """The names of the two runs in what is shown."""

    @property
    def first(self) -> str | None:
        """The turn in which the runs first differ, such as `0.2/3`; None if they do not.

        Up to this turn, both trees have the same places.
        """
        return find_first(self.changes)

    def format(self, *, whole: bool = False, times: bool = False) -> str:
        """Returns the difference as text, without secrets.

        Args:
            whole: if True, no change is cut or left out.
            times: if True, includes the seconds of both runs, which are never the same twice.
        """
        return format_text(self._outline(whole=whole, times=times))

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        return f"RunDiff({describe(self.changes, self.same_path)})"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        outline = self._outline()
        bundle = {"text/html": format_html(outline), "text/plain": format_text(outline)}
        # in the metadata alone, since no two runs take as long
        seconds = next([one.a, one.b] for one in self.figures if one.name == SECONDS)
        return bundle, {"axe_nb": {"seconds": seconds}}

    def _outline(self, *, whole: bool = False, times: bool = False) -> Outline:
        return make_outline(
            self.pair, self.figures, names=self.names, same_path=self.same_path,
            whole=whole, times=times,
        )  # fmt: skip


def diff_runs(a: RunResult, b: RunResult, names: tuple[str, str] = ("a", "b")) -> RunDiff:
    """Compares two runs and all runs below them.

    Args:
        a: one run, however it ended, in memory or loaded.
        b: the other.
        names: their names in what is shown.

    Raises:
        ConfigError: one of them is not the result of a run.
    """
    for one in (a, b):
        if not isinstance(one, RunResult):
            raise ConfigError(
                f"diff compares two run results, not {type(one).__name__}",
                hint="use a.diff(b), where axe_nb.run or axe_nb.load returned both",
            )
    pair = compare_runs(a, b, find_filter())
    return RunDiff(
        pair=pair, changes=tuple(list_changes(pair)), same_path=find_path(a) == find_path(b),
        figures=list_figures(a, b), names=names,
    )  # fmt: skip
