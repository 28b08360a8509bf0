"""Sensors in: the MQTT endpoint, the broker subscription and the decoders, on ships and on quays."""
