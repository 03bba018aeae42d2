"""Findings on the session and its files: cassette, history, protected files, prices.

Source: product.md "Notebook" (`%axe doctor`); D-83, D-60.
"""

from __future__ import annotations

from axe_nb.agents.config import Config, config_path, format_path
from axe_nb.doctor.finding import Finding, make_failed_finding
from axe_nb.doctor.reach import describe_protected
from axe_nb.errors import ConfigError
from axe_nb.prices import EXTRA, find_table_version
from axe_nb.recording.cassette import Cassette
from axe_nb.run_history.history import describe_history
from axe_nb.run_history.policy import find_reason_against
from axe_nb.text import plural


def check_cassette(cassette: Cassette | None) -> list[Finding]:
    """Counts what the session has played and missed; nothing if it has no cassette."""
    if cassette is None:
        return []
    status = cassette.status()
    if status.misses > status.recorded:
        return [Finding("note", "cassette", str(status), cassette.how_to_record)]
    return [Finding("right", "cassette", str(status))]


def check_history() -> Finding:
    """Tells where runs are kept, or why they are not."""
    why = find_reason_against()
    try:
        said = describe_history()
    except ConfigError as error:
        return make_failed_finding("history", error)
    return (
        Finding("note", "history", f"off: {why}; {said}")
        if why
        else Finding("right", "history", said)
    )


def check_files() -> Finding:
    """Lists the protected files of the current folder."""
    try:
        return Finding("right", "files", describe_protected())
    except OSError as error:
        return Finding("note", "files", f"cannot be listed: {error.strerror or error}")


def check_prices(config: Config) -> Finding:
    """Names the table of prices, and how many prices are the user's own."""
    table, own = find_table_version(), len(config.prices)
    also = f", and {plural(own, 'price')} in {format_path(config_path())}" if own else ""
    if table:
        return Finding("right", "prices", f"from the table {table}{also}")
    step = f"to see the cost of runs: pip install '{EXTRA}'"
    return Finding("note", "prices", f"no price table is installed{also}", step)
