"""Steered video: one request on one connection, generated in a thread while its client watches and changes it."""
