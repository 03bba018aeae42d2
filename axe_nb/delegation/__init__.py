"""The four ways to delegate, one module each, and `ctx.delegate`; all of them make a `Job`."""
