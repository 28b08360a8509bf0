"""The fleet in containers, started, looked at from outside and ended: `python3 -m deploy.containers`."""
