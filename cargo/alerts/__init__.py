"""Alerts: the record of each change, the fold to the current state, and the permissions to write them."""
