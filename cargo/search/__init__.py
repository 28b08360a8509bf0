"""Possible drift of lost containers, and the area to search."""
