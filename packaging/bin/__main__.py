"""Entry of every installed program: `python3 -I -S <this folder> PROGRAM [arguments]`.

-I and -S leave nothing on the path but this folder: no PYTHON* variables, no home, no /usr/local, no .pth files.
"""

import sys
from importlib import import_module

DEBIANS_LIBRARIES = "/usr/lib/python3/dist-packages"
PROGRAMS = {
    "holdfast": "holdfast.node.command",
    "holdfast-agent": "agent.command",
    "holdfastctl": "holdfast.ctl.operator",
    "holdfast-coordinator": "coordinator.command",
}

__package__ = None  # click 8.1.3 takes "" for a package, and would call each program `python -m PROGRAM`

sys.path.append(DEBIANS_LIBRARIES)
program = sys.argv.pop(1)
sys.argv[0] = program
__package__ = None  # else click calls itself `python -m holdfast`
sys.exit(import_module(PROGRAMS[program]).main())
