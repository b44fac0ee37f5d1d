"""Transport: HTTP and WebSocket in front of sessions. Holds no session state."""
