"""The port's node, which headquarters runs too: quay sensors, ships, peers and the read API."""
