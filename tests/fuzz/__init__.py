"""Coverage-guided fuzzing of what reads bytes from outside: `make fuzz`, or `python -m tests.fuzz --seconds N`.

targets     what must hold for any bytes; an exception is a finding
seeds       where each target starts from
run         one target under atheris, in a process of its own
"""
