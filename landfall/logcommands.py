"""`landfall log` with all its commands: each of these modules adds its own."""

from landfall import logcopies, losetools, prooftools
from landfall.logtools import log_app

__all__ = ["log_app", "logcopies", "losetools", "prooftools"]
