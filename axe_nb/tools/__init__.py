"""Tools, their schemas and their effects."""
