"""Grids: variants of agents × inputs × repeats, what they did, and how sure that is."""
