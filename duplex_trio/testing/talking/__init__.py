"""Somebody who talks to a server as people do, for tests with real models."""
