"""The commands and options of every interface: parsers, help pages and shared actions."""
