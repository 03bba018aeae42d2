"""Conversion of Python values and types to text, JSON and TOML, and back."""
