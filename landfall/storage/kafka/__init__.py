"""The log in Kafka: one Kafka topic per stream, a block per Kafka record, its coordinates in headers."""
