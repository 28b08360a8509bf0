"""The simulator: a fleet, its containers and their sensors, seeded and repeatable."""
