"""Landfall's sync beside NATS JetStream leaf nodes, a Mosquitto bridge and Kafka MirrorMaker 2: real processes, one proxy between them."""
