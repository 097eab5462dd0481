"""Transactional messages on Kafka, Spark and Delta."""
