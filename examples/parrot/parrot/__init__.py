"""A parrot as a model for duplex_trio: it says back what it hears, higher and faster."""
