"""A finished run as one file: an HTML page, Markdown, JSON lines."""
