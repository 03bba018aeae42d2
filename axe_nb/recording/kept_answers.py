"""The recorded answers that a failed or interrupted run may not displace."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from axe_nb.engine.replay import run_of, turn_of
from axe_nb.recording.outcome import decode, has_failed
from axe_nb.recording.records import AT_TURN, Key, Record

FAILED = ("error", "timeout", "cancelled")
"""Statuses of runs that failed or were interrupted."""

KEEPS = "its earlier recording of this run, which failed now"
"""The end of the warning of a cassette that keeps it."""


def is_whole(records: Iterable[Record]) -> bool:
    """True if every request of a recorded run was answered, and nothing cut the run."""
    listed = list(records)
    return not list_failed(listed) and all(one.kind != "end" for one in listed)


def list_failed(records: Iterable[Record]) -> set[str]:
    """Returns the places whose last attempt brought no answer."""
    last: dict[str, Record] = {}
    for record in records:
        before = last.get(record.place)
        if record.kind == "model" and (before is None or before.number < record.number):
            last[record.place] = record
    return {place for place, one in last.items() if has_failed(decode(one.outcome, 1, one.number))}


def replaces(new: Mapping[Key, Record], old: Mapping[Key, Record]) -> bool:
    """True if a changed run takes the place of a recorded one: a failed one not of a whole one."""
    return bool(new) and (is_whole(new.values()) or not is_whole(old.values()))


def find_kept(
    new: Mapping[Key, Record], old: Mapping[Key, Record], *, has_ended: bool, whole: bool
) -> Sequence[Record] | None:
    """Returns the new records of a run that may not displace an old recording as a whole.

    Args:
        new: the records of the run.
        old: its recording.
        has_ended: False if the run failed or was interrupted.
        whole: True if it keeps none of them, as the others were not played.

    Returns:
        None if the run failed nowhere where it had been answered: all may be kept.
    """
    lost = _find_lost(new, old)
    if not lost and (has_ended or not old or not is_whole(old.values())):
        return None
    places = {record.place for record in old.values()}
    for record in old.values():
        record.is_used = record.is_used or whole or record.place in lost
    return [one for one in new.values() if not (whole or _is_held_back(one, lost, places))]


def _find_lost(new: Mapping[Key, Record], old: Mapping[Key, Record]) -> set[str]:
    """Returns the places that were answered in an old recording, and failed in a new one."""
    failed = list_failed(new.values())
    if not failed:
        return set()
    had = [record for record in old.values() if record.place in failed]
    return {record.place for record in had if record.kind == "model"} - list_failed(had)


def _is_held_back(record: Record, lost: Collection[str], old: Collection[str]) -> bool:
    """True if a new record depends on a failure, and would displace an answer that does not."""
    if record.place in lost or record.kind == "end":
        return True
    if record.kind not in AT_TURN or record.place not in old:
        return False
    run, turn = run_of(record.place), turn_of(record.place)
    return any(
        run_of(place).startswith(f"{run}.") or (run_of(place) == run and turn > turn_of(place))
        for place in lost
    )
