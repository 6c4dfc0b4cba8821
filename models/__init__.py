"""The zoo: rankers and recallers under one contract, their training and their artifacts."""
