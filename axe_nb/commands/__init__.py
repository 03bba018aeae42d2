"""Commands and options of every face, described once, for parsers, help, Tab and reference."""
