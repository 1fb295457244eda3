"""Expectations, held against what nodes would be given."""
