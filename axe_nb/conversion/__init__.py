"""Conversion of Python values and types to text, and to and from JSON and TOML."""
