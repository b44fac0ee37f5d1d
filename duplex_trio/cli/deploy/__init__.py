"""The `duplex-trio deploy` command: which deployments there are, what is wrong with one, and what one says."""
