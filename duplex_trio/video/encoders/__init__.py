"""From frames to payloads that play while they arrive."""
