"""Pictures and documents for models: their formats, search for them in values, scaled copies."""
