"""One request, left to right: the pipeline of named stages, the router and the worker."""
