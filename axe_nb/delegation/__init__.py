"""The delegation tools, one module each, and `ctx.delegate`; each of them creates a `Job`."""
