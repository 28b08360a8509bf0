"""Landfall's sync beside NATS JetStream leaf nodes and a Mosquitto bridge: real processes, one proxy between them."""
