"""`landfall log` with all its commands: each of these modules adds its own."""

from landfall.cli import log_copy_commands, lose_commands, proof_commands
from landfall.cli.log_commands import log_app

__all__ = ["log_app", "log_copy_commands", "lose_commands", "proof_commands"]
