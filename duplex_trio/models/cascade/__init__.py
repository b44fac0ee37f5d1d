"""The CPU default: recognition, a language model and synthesis that work at the same time."""
