"""Providers: one module per protocol, over shared connections."""
