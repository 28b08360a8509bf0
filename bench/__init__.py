"""Measurements of the targets in DESIGN 12, each printed with its machine and date."""
