"""Providers for model servers, with one module per protocol and shared connections."""
