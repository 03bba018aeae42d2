"""Views of a run, as a tree and as text. Pure."""
