"""The methods of a result that need rooms above it, as the room of results knows them.

Results lie below the engine, which makes them. `axe_nb/__init__.py`, above all rooms, says where
the functions are; they are imported on first use.
Source: product.md "Runs are recordings"; house style §1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Difference(Protocol):
    """The difference of two runs and all runs below them; a notebook shows it as a tree."""

    @property
    def first(self) -> str | None:
        """The turn in which the runs first differ, such as `0.2/3`; None if they do not."""

    @property
    def same_path(self) -> bool:
        """True if the same agents called the same tools in the same order, whatever was said."""

    @property
    def changes(self) -> Sequence[Any]:
        """All changes, in reading order: `place`, `other`, `kind`, `agent`, `before`, `after`."""

    @property
    def figures(self) -> Sequence[Any]:
        """Requests, tokens, money and time: `name`, `a`, `b`, `change`."""

    def to_frame(self) -> Any:
        """Returns the changes as a pandas DataFrame, without secrets."""

    def format(self, *, whole: bool = False, times: bool = False) -> str:
        """Returns it as text, without secrets."""


class Sent(Protocol):
    """One request to a model. Its body is not filtered; what is shown of it has no secrets."""

    @property
    def place(self) -> str:
        """Turn in the tree: `0.2/3` is the third turn of run `0.2`."""

    @property
    def protocol(self) -> str:
        """Protocol of the body."""

    @property
    def note(self) -> str:
        """The reason why the body is not one that was sent; empty if it is."""

    @property
    def raw(self) -> bytes:
        """The body, byte by byte."""

    @property
    def body(self) -> dict[str, Any]:
        """The body, decoded."""

    @property
    def changed(self) -> tuple[str, ...]:
        """The changes since the previous turn, in words, without secrets."""

    @property
    def context(self) -> Mapping[str, int]:
        """Source → tokens, with `total`."""

    def format(self, *, whole: bool = False) -> str:
        """Returns it as text, without secrets."""


class Undone(Protocol):
    """The files that an undo has put back, or would put back; a notebook shows the difference."""

    @property
    def restored(self) -> Sequence[str]:
        """Files that have their old content again, relative to the workdir."""

    @property
    def removed(self) -> Sequence[str]:
        """Files that the run had created."""

    @property
    def conflicts(self) -> Sequence[str]:
        """Files that were left because something else changed them since, or during the run."""

    @property
    def notes(self) -> Sequence[str]:
        """A line for each thing that cannot be undone, with its reason."""

    @property
    def diff(self) -> str:
        """The changes as a unified diff, cut if it is long, without secrets."""


class ResultActions(Protocol):
    """The functions behind the methods; each takes the result first."""

    def fork(self, result: Any, place: str | int | None, /, **changes: Any) -> Any: ...

    async def afork(self, result: Any, place: str | int | None, /, **changes: Any) -> Any: ...

    def diff_runs(self, a: Any, b: Any, /) -> Difference: ...

    def find_request(
        self, result: Any, place: str | int | None, protocol: str | None, /
    ) -> Sent: ...

    def undo(self, result: Any, /, *, force: bool, dry: bool) -> Undone: ...

    def show_twin(self, result: Any, /) -> dict[str, str]: ...


_find: Callable[[], ResultActions] | None = None


def provide(find: Callable[[], ResultActions]) -> None:
    """Sets how the functions are found; for the top of the package alone."""
    global _find
    _find = find


def find_actions() -> ResultActions:
    """Returns the functions."""
    assert _find is not None, "the top of the package sets it"
    return _find()
