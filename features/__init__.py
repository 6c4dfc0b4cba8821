"""Per feature family its Flink SQL (write side) and its pure functions (read side); and the store."""
