"""Notebooks as tests: run without a person, compared with their saved outputs, frozen."""
