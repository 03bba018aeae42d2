"""What a model can call: tools, their schemas, and what they may do."""
