"""Dataclasses as JSON data and back, by their type hints, without loss."""
