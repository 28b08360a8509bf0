"""Headquarters' HTTP API: the serving store through one rule of access, and the registry's way in."""
