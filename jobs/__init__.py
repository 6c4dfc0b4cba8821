"""The stream programs: the gate, the Flink programs, the neighbour learner and the materializer."""
