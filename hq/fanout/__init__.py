"""Fan-out: headquarters' streams as plain JSON in a Kafka, for whoever has a Kafka client and the right to read."""
