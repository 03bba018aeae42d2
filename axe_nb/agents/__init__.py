"""Agents and their files, the settings, and the context that an agent starts with."""
