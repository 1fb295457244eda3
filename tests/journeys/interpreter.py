"""Which Python the agent of a journey runs on: HOLDFAST_AGENT_PYTHON names another one than the tests' own.

So an agent with Debian 12's libraries speaks to a coordinator with the newest: `make journeys`.
"""

import os
import sys

AGENT_PYTHON = os.environ.get("HOLDFAST_AGENT_PYTHON") or sys.executable
