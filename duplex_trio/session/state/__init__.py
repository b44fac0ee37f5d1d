"""The sans-IO core of a session: ledgers and state machines that need no event loop, clock or thread."""
