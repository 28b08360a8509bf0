"""Decoders of foreign payload formats, and the interface for an operator's own decoders."""
