"""The history of runs: kept in a SQLite file while they happen, listed and loaded later."""
