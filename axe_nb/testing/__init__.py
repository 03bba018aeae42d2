"""Notebooks as tests, lessons for students, and a pytest plug-in."""
