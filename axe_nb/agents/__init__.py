"""Who runs: agents and their files, the settings, and what an agent is told."""
