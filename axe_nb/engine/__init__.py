"""One agent at work: limits, turns, calls, and the only loop."""
