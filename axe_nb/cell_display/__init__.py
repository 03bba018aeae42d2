"""The display of runs, maps and grids in the output of a notebook cell."""
