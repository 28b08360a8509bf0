"""What every node runs, ship, port or headquarters: its log, its sessions with peers, its HTTP door, its metrics and the reports of its
failures."""
