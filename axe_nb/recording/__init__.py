"""Runs as recordings: cassettes, and what they replay."""
