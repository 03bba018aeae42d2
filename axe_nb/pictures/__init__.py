"""Pictures and documents for models: formats, conversion of values, scaled copies."""
