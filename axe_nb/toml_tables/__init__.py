"""TOML tables as dataclasses: types are checked, unknown keys rejected, lines reported."""
