"""Runs notebooks as tests, compares their outputs with saved outputs, and freezes notebooks."""
