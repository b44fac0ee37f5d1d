"""A deterministic model without weights, for examples and tests.

It hears what its script says and speaks in tones.
"""
