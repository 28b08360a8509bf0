"""Rules that need more than one ship, digests, and queries to a ship."""
