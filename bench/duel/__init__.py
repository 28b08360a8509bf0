"""Compare Landfall's sync with NATS JetStream leaf nodes and a Mosquitto bridge: real processes, with one proxy between them."""
