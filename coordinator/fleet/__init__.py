"""What an operator is told of nodes: versions, who is late, why a node holds what it holds."""
