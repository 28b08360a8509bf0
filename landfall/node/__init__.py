"""The common part of every node, ship, port or headquarters: its log, its sessions with peers, its HTTP door, its metrics and the reports
of its failures.
"""
