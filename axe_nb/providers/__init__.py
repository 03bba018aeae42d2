"""Providers: one module per protocol, over shared connections.

Source: B-2, B-3, D-33.
"""
