"""Python values and types as text, JSON and TOML, and back."""
