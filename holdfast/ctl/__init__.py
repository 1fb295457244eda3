"""`holdfastctl`: the command line of operators."""
