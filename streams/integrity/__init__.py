"""Proof: what an origin signed of its streams, how a copy is checked against it, and what is missing from a copy."""
