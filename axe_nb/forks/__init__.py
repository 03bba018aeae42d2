"""Forks: a run that goes on from a place of another one, and asks only what the change touches."""
