"""TOML tables as dataclasses: types checked, unknown keys refused, lines named."""
