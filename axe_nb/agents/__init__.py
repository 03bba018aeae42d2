"""Agents and their files, user settings, and the context that an agent starts with."""
