"""Runs the `axe-nb` command line for `python -m axe_nb`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder, whose files would run in place of Python's own modules

from axe_nb.cli import run_and_exit

run_and_exit()
