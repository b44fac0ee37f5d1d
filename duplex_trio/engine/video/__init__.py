"""What runs a model of video: its stages, which all videos share, and who is let in."""
