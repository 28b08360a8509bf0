"""Spark's job at headquarters: the log's streams become histories, states, hourly aggregates, customers' streams and fleet alerts."""
