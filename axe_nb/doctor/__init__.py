"""Diagnosis of configuration problems, with the next step for each."""
