"""Many runs: maps (one agent, many prompts) and grids (variants × inputs × repeats)."""
