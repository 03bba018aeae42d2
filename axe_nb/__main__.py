"""`python -m axe_nb` is `axe-nb`."""

from axe_nb.cli import run_and_exit

run_and_exit()
