"""The signed document, and when to believe it. Pure: no I/O, no clock, no event loop.

Start with `verify.py`, which lists the twelve steps; every other module is one of the things that it asks.
"""
