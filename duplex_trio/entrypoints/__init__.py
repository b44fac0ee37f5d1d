"""The Python entries to an engine: requests (`async_omni`) and sessions (`duplex_omni`)."""
