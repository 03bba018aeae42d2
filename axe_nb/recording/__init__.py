"""Recordings of runs: cassettes and their replay, forks, the history, OpenTelemetry spans."""
