"""Commands and options of all interfaces, described once for parsers, help, Tab and reference."""
