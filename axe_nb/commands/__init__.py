"""Commands and options of all interfaces, with parsers, help pages and shared actions."""
