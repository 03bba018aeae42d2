"""`python -m tests.benchmarks`: what axe_nb costs, in counts that are the same on every machine.

Exit code 1 if a count is out of its bounds. `--peers` measures axe_nb beside other libraries
instead, and prints the table of docs/comparison.md; the rows of goals.md are measured by
`python -m tests.benchmarks.goals` and the other modules of this folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.benchmarks import structure
from tests.benchmarks.peers.run import run_comparison
from tests.benchmarks.peers.table import CONTENDERS
from tests.bootstrap import ROOT


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "--peers", nargs="*", metavar="NAME", choices=[one.name for one in CONTENDERS],
        help="measure beside other libraries, or those named, and print the table",
    )  # fmt: skip
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".venv-peers",
        help="for their environments (default: .venv-peers; about 2 GB)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.peers is None:
        return structure.main()
    run_comparison(options.folder.resolve(), options.peers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
