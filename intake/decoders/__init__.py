"""Decoders of foreign payload formats, and the interface for decoders of one's own."""
