"""Kafka as the resolver uses it: clients, topics, rights, the oldest offsets."""
