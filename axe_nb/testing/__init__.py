"""Notebooks as tests: runs them unattended, compares outputs with saved ones, and freezes them."""
