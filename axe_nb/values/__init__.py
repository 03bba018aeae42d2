"""Python values as text and JSON for a model: bounded, valid, the same in every process."""
