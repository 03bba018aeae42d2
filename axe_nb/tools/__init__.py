"""Tool definitions, tools made from Python functions, structured output, and undo data."""
