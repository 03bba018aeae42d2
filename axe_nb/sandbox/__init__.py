"""The sandbox of commands: runs a program that sees only part of the machine."""
