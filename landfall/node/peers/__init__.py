"""A node's sessions with its peers: which are open, what they may cost, and what peers have acknowledged."""
