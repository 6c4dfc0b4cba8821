"""Plumbing that knows nothing of recommendations: configuration, Kafka clients, clock, process life cycle."""
