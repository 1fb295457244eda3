"""What nodes ask each other."""
