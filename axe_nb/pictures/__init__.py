"""Pictures and documents for models: what they are, where they are found, smaller copies."""
