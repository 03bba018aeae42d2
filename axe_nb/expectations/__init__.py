"""Expectations of a finished run, as in `researcher >= 2, parallel; no write_file`."""
