"""Kafka with this project's settings: clients, reading, sending, topics."""
