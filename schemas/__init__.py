"""The contract on the wire: types, topics, codec and errors. Imports nothing of the other packages."""
