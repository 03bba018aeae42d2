"""OpenTelemetry spans of runs, where a program has set OpenTelemetry up."""
