"""Many runs at once: maps (one agent, many prompts) and grids (variants × inputs × repeats)."""
