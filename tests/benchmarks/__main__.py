"""`python -m tests.benchmarks`: what axe_nb costs, in counts that are the same on every machine.

Exit code 1 if a count is out of its bounds. `--peers` measures axe_nb beside other libraries
instead, and writes what docs/comparison.md shows; the single rows of goals.md are the other
modules of this folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.benchmarks import structure
from tests.benchmarks.peers.run import run_comparison
from tests.benchmarks.peers.table import CONTENDERS
from tests.bootstrap import ROOT, say


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "--peers", nargs="*", metavar="NAME",
        help="measure beside other libraries and write the page; with names only print these",
    )  # fmt: skip
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".venv-peers",
        help="for their environments (default: .venv-peers; about 4 GB)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.peers is None:
        return structure.main()
    known = [one.name for one in CONTENDERS]
    if unknown := set(options.peers) - set(known):
        parser.error(f"no contender {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    found = run_comparison(options.folder.resolve(), options.peers)
    sys.path.insert(0, str(ROOT / "docs"))
    import make_comparison

    if options.peers:  # a part of the table would not be the table
        for columns in make_comparison.TABLES.values():
            say("\n".join(make_comparison.table(found, columns)))
        return 0
    for path in make_comparison.write(found):
        say(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
