"""Sentence encoders: what a text means, as one vector. For models that are steered by prompts."""
