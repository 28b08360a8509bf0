"""How a paho client that runs in its own thread is closed: paho's `loop_stop` leaves the socket pair that wakes the thread open."""

from __future__ import annotations

import paho.mqtt.client as mqtt


def close(client: mqtt.Client) -> None:
    """Ends the connection, the thread, and the socket pair: who waits for the garbage collector sees it warn of open sockets, whenever it
    happens to find those before the client."""
    client.disconnect()
    client.loop_stop()
    client._reset_sockets()
