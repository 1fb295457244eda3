"""Entry of every installed program: `python3 -I -S <this folder> PROGRAM [arguments]`.

-I and -S leave nothing on the path but this folder: no PYTHON* variables, no home, no /usr/local, no .pth files.
"""

import sys
from importlib import import_module

DEBIANS_LIBRARIES = "/usr/lib/python3/dist-packages"
PROGRAMS = {
    "holdfast": "holdfast.command",
    "holdfast-agent": "agent.run",
    "holdfastctl": "holdfast.operator",
    "holdfast-coordinator": "coordinator.run",
}

sys.path.append(DEBIANS_LIBRARIES)
program = sys.argv.pop(1)
sys.argv[0] = program
sys.exit(import_module(PROGRAMS[program]).main())
