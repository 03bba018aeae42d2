"""Notebooks as tests: run without a person, compared with what is saved, frozen."""
