"""The MQTT endpoint: listener, connections, packets, sessions and wills; and the client of an MQTT broker."""
