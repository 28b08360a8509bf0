"""Fan-out: headquarters' streams as plain JSON in a Kafka, for programs with a Kafka client and the right to read."""
