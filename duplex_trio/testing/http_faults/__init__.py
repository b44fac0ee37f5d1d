"""A scripted HTTP engine for tests of what asks one: it answers as told, byte by byte, and breaks where it is told."""
