"""The choice of the ship's link: port or satellite, by which of the ship's nodes, and the crew's override."""
