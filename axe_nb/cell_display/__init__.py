"""Displays runs, maps and grids in the output of a notebook cell."""
