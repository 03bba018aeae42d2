"""`python -m tests.benchmarks [NAME…]`: axe_nb beside other libraries, as docs/comparison.md shows.

The rows of goals.md are measured by `python -m tests.benchmarks.goals` and the other modules of
this folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks.peers.run import run_comparison
from tests.benchmarks.peers.table import CONTENDERS
from tests.bootstrap import ROOT

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    names = [one.name for one in CONTENDERS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(names)}")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".venv-peers",
        help="for their environments (default: .venv-peers; about 2 GB)",
    )  # fmt: skip
    options = parser.parse_args()
    run_comparison(options.folder.resolve(), options.names)
