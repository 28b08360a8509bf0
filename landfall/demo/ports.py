"""The ports of this machine that the demo listens on, all of 127.0.0.1.

Standard library alone: set-up looks here before anything is installed, and says at once which are in use.
MQTT's own 1883 is left alone: Debian's Mosquitto listens there as soon as it is installed.
"""

from __future__ import annotations

DOORS = {"hq": 8770, "tokyo": 8771, "singapore": 8772, "sydney": 8773, "albatross": 8774, "cormorant": 8775}
MQTT = {"tokyo": 18831, "singapore": 18832, "sydney": 18833, "albatross": 18834, "cormorant": 18835}
API = 8780
ANALYTICS = 8781
PROJECTOR = 8782
CLOCK = 8790
PAGES = 8501

ALL = (*DOORS.values(), *MQTT.values(), API, ANALYTICS, PROJECTOR, CLOCK, PAGES)
