"""What is in the way, and the next step."""
