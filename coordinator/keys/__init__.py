"""Keys and certificates: where they lie, what they sign, and files that are swapped as a whole."""
