"""Structured output: what an answer has to be, and how it is read and checked."""
