"""Concrete models behind the plugin contract, and the references that find their files on this machine."""
