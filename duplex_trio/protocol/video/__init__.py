"""The protocol of steered video, `WS /v1/realtime/video`."""
