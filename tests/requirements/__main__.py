"""`python -m tests.requirements`: what no test names, what is exempt and why, what is misspelt.

With ids as arguments: where the tests of these rows are.
"""

from __future__ import annotations

import sys

from tests.requirements import coverage

FAMILIES = {
    "A": "call_agent and the core (seed 000)",
    "P": "the Axe plan (seed 001)",
    "B": "base behaviour",
    "X": "subagent (seeds 002, 004)",
    "O": "spawn_agent and delegate_task (seed 003)",
    "D": "decisions",
    "E": "maps, grids, differences of runs",
}


def main(ids: list[str]) -> int:
    """Exit code: 1 where a mark names no row."""
    now = coverage()
    for row in ids:
        print(f"{row} ({now.rows.get(row, 'no row')}):")
        print(*(f"   {place}" for place in now.named.get(row, ["no test"])), sep="\n")
    if ids:
        return 0
    for family, title in FAMILIES.items():
        total = sum(row[0] == family for row in now.rows)
        missing = now.missing(family)
        print(f"{family}  {title}: {total - len(missing)} of {total} accounted for")
        if missing:
            print(f"   named by no test: {' '.join(missing)}")
    for kind, rows in now.exempt.items():
        print(f"{kind.replace('_', ' ')}:")
        for row, reason in rows.items():
            print(f"   {row}: {reason}")
    for mistake in now.mistakes:
        print(mistake, file=sys.stderr)
    return 1 if now.mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
