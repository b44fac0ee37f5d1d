"""A video without a server: an engine that is watched, a client that watches, and an encoder that changes nothing."""
