"""Many runs of one agent: bounded concurrency, a budget, resume files, executors."""
