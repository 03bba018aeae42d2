"""`result.undo()` and `%axe undo`, which restore files that `write_file` and `edit_file` changed.

Source: D-84.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from axe_nb.builtin.files import Change, edit_lock, put
from axe_nb.builtin.paths import errors_for_model, kind, locate, may_read, open_file
from axe_nb.engine.toolbox import REGISTRY
from axe_nb.errors import ConfigError
from axe_nb.paths import hold_real_folder
from axe_nb.results import RunResult
from axe_nb.secrets import redact
from axe_nb.text import clean, cut_bytes, list_some, one_line, plural, printable
from axe_nb.tools.kept_files import MAX_RUN, KeptFile, digest, read_content, read_kept
from axe_nb.tools.tool import ToolError

MAX_DIFF, MAX_FILE_DIFF = 20_000, 4096

MAX_NAMES = 20

Outcome = Literal["restored", "removed", "conflicts", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneFiles:
    """The outcome of an undo, or of a trial with `dry`; displayed as a diff and a report."""

    restored: tuple[str, ...] = ()
    """Files restored to their old content. All paths are relative to the workdir, or to the folder
    that contains the workdirs of all agents."""
    removed: tuple[str, ...] = ()
    """Files removed because the run had created them."""
    conflicts: tuple[str, ...] = ()
    """Files left as they are, because something else changed them during or after the run."""
    notes: tuple[str, ...] = ()
    """Lines about changes that are not undone, with the reasons."""
    diff: str = field(default="", repr=False)
    """Unified diff of the changes, without secrets; cut if it is long."""
    is_dry: bool = False
    """True if nothing was changed, because `dry` was set."""

    @property
    def report(self) -> str:
        """Report as lines of text: restored, removed and conflicting files, then notes."""
        would = "would " if self.is_dry else ""
        verbs = ("restore", "remove") if self.is_dry else ("restored", "removed")
        pairs = zip(verbs, (self.restored, self.removed), strict=True)
        lines = [f"{would}{verb} {_list(paths)}" for verb, paths in pairs if paths]
        if self.conflicts:
            left = "to be left" if self.is_dry else "left"
            lines.append(f"{left}, as something else has changed them: {_list(self.conflicts)}")
        return "\n".join([*(lines or ["nothing to undo"]), *self.notes])

    def __repr__(self) -> str:
        return "\n".join(filter(None, (self.diff, self.report)))


def undo(result: RunResult, *, force: bool = False, dry: bool = False) -> UndoneFiles:
    """Restores the files that `write_file` and `edit_file` changed; see `RunResult.undo`."""
    if result.id != "0":
        raise ConfigError(f"{result.id} is a part of a run", hint="undo the whole run")
    kept = read_kept(result.undo_id)
    found: dict[Outcome, list[str]] = {"restored": [], "removed": [], "conflicts": [], "same": []}
    notes: list[str] = []
    diffs: list[str] = []
    size = 0
    top = os.path.commonpath([file.first.root for file in kept]) if kept else ""
    for file in kept or ():
        path = Path(file.first.root, file.first.path).relative_to(top).as_posix()
        shown = one_line(printable(path), 200)
        try:
            outcome, change = _undo_file(result.undo_id, file, is_forced=force, is_dry=dry)
        except ToolError as error:
            notes.append(f"{shown}: {one_line(str(error), 300)}")
            continue
        found[outcome].append(path)
        if change is not None and size < MAX_DIFF:
            before, after = (None if data is None else _decode(data) for data in change)
            text = clean(redact(Change(shown, before, after or "").diff))
            rest = "\n... (the rest of the diff of this file is omitted)"
            diffs.append(cut_bytes(text, MAX_FILE_DIFF, rest))
            size += len(diffs[-1])
    if len(notes) > MAX_NAMES:
        notes[MAX_NAMES:] = [f"and {len(notes) - MAX_NAMES} more files that cannot be undone"]
    return UndoneFiles(
        restored=tuple(found["restored"]), removed=tuple(found["removed"]),
        conflicts=tuple(found["conflicts"]), is_dry=dry,
        notes=(*notes, *_describe_rest(result, is_kept=kept is not None)),
        diff=cut_bytes("\n".join(diffs), MAX_DIFF, "\n... (the rest of the diff is omitted)"),
    )  # fmt: skip


def _undo_file(
    run: str, file: KeptFile, *, is_forced: bool, is_dry: bool
) -> tuple[Outcome, tuple[bytes | None, bytes | None] | None]:
    """Restores a file; returns the outcome and, unless protected, the contents before and after."""
    first = file.first
    names = locate(Path(first.root), first.path)
    if names.path != first.path:
        raise ToolError("a link has taken its place")
    old = None  # there was no file
    if first.mode is not None:
        if not first.kept:
            raise ToolError("its old content was not kept")
        old = read_content(run, file)
        if old is None:
            raise ToolError("its kept content is damaged")
    done: Outcome = "removed" if old is None else "restored"
    is_shown = may_read(names)
    with edit_lock, errors_for_model(first.path):
        now = None  # for a very long file, its beginning
        if kind(names) is not None:
            with os.fdopen(open_file(names), "rb") as opened:
                now = opened.read(MAX_RUN + 1)
        if now == old:
            return "same", None
        is_changed = now is not None and (file.is_mixed or digest(now) not in file.written)
        if is_changed and not is_forced:
            return "conflicts", None
        if old is None and not is_dry:
            with hold_real_folder(names.real.parent) as folder:
                os.unlink(names.real if folder is None else names.real.name, dir_fd=folder)
        elif old is not None and not is_dry:
            put(names, old, mode=first.mode)
    return done, (now, old) if is_shown else None


def _decode(data: bytes) -> str:
    if b"\0" in data or len(data) > 1_000_000:
        return f"({plural(len(data), 'byte')})\n"
    return data.decode("utf-8", "replace")


def _list(paths: Collection[str]) -> str:
    return list_some([one_line(printable(path), 200) for path in paths], MAX_NAMES)


def _describe_rest(result: RunResult, *, is_kept: bool) -> Iterator[str]:
    if result.origin:
        yield "not undone: changes by the forked run; undo that run as well"
    elif not is_kept and any(run.files_modified for run in result.walk()):
        yield "the old contents of the files that this run changed are no longer available"
    calls = Counter(
        call.name
        for run in result.walk()
        for turn in run.log
        for call, outcome in zip(turn.calls, turn.results, strict=False)
        if not (outcome.is_denied or outcome.is_skipped or call.traits.delegates)
    )
    others = [
        f"{one_line(printable(name), 100)} ({plural(count, 'call')})"
        for name, count in calls.items()
        # a tool that this session does not know may change files, too
        if name not in ("write_file", "edit_file")
        and not ((tool := REGISTRY.find(name)) and tool.effect in ("read", "network", "delegate"))
    ]
    if others:
        yield f"not undone: possible changes by other tools: {list_some(others, MAX_NAMES)}"
