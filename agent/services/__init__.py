"""The node's own services: who is asked before a version, who is told of one, what is said of it."""
