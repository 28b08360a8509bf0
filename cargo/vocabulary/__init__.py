"""Readings, signals, registry entries, slots and codes of the trade, and their checks."""
