"""What a node keeps for its neighbours, and how it judges that."""
