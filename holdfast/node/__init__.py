"""`holdfast`: the command line of a node."""
