"""Tier 1: OpenAI's realtime protocol and nothing else. `protocol.duplex` is the door to it."""
