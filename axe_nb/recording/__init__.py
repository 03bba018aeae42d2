"""Recordings of runs: cassettes and what they replay, the history, spans, forks."""
