"""A run as a tree and as text; pure."""
