"""The embedded one-machine stack: Java and jars from registries; Kafka, Redis and Flink as child processes."""
