"""Headquarters: Spark over the log, the serving store and the API."""
