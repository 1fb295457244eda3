"""Prints docs/rules-to-come.toml anew: the stage-1 rules that no test cites yet, each with why or when.

    python -m tests.rules_to_come            print it
    python -m tests.rules_to_come --write    put it in place

A reason that stands in the file already is kept; a new entry gets that of its section, to be made
better by hand. Rules of stage 2 are to come by their stage and are not listed.
"""

import json
import sys
import tomllib
from typing import Any

from tests import citations

LIST = citations.ROOT / "docs/rules-to-come.toml"

HEADER = """\
# Rules of the first stage (rules.toml) that no test proves yet, with why or when. Made by
# `python -m tests.rules_to_come --write`, which keeps the reasons. A rule leaves the list when a test cites
# it, and an entry that is no longer needed fails the build.
"""

REASONS = {
    "1.1": "needs a coordinator and an agent that run: with the journeys",
    "1.2": "with the tests of snapshot/ on envelopes and bytes",
    "1.3": "with the tests of snapshot/ on roles, scopes and content",
    "1.4": "with the tests of increments, in snapshot/ and in the agent's update path",
    "1.5": "with the tests of trust bundles and key rotation",
    "1.6": "with the tests of the twelve steps",
    "1.7": "needs a coordinator and an agent that run: with the journeys",
    "2.1": "with the tests of the store's layout and of the agent's start",
    "2.2": "with the tests of the store under faults",
    "2.3": "with the tests of the library facts that the store is built on",
    "3.1": "with the tests of the agent's states",
    "3.2": "with the tests of the degraded-mode gate",
    "3.3": "with the tests of the agent's clock and recovery",
    "4.1": "with the tests of join over real TLS",
    "4.2": "with the tests of the coordinator's membership",
    "5.1": "with the tests of both daemons' configuration",
    "5.2": "with the tests of tokens and node entries",
    "5.3": "with the tests of check-in and heartbeat",
    "5.4": "with the tests of revocation and of the running daemons",
    "6.2": "with the tests of the coordinator's history on both databases",
    "6.3": "with the tests of the coordinator's probes",
    "7": "with the tests of the part that decides it",
    "8": "with the journeys through the whole system",
}
"""The section of a rule to what its proof waits for."""


def listed() -> dict[str, str]:
    """The list as it stands."""
    return tomllib.loads(LIST.read_text()) if LIST.exists() else {}


def unproved(pages: dict[str, Any], proved: set[citations.Citation]) -> list[str]:
    """The rules of stage 1 without a test, in the registry's order."""
    first_stage = (ident for ident, rule in pages["rules"].items() if rule["stage"] == 1)
    return [ident for ident in first_stage if citations.Citation("rules", ident) not in proved]


def render(pages: dict[str, Any], missing: list[str], reasons: dict[str, str]) -> str:
    """The file's text."""
    lines, section = [HEADER], ""
    for ident in missing:
        if (here := pages["rules"][ident]["section"]) != section:
            section = here
            lines.append(f"\n# {section} {pages['sections'][section]}\n")
        reason = reasons.get(ident, REASONS[section])
        lines.append(f"{ident} = {json.dumps(reason, ensure_ascii=False)}\n")
    return "".join(lines)


def main() -> None:
    pages = citations.registry()
    text = render(pages, unproved(pages, citations.proved()), listed())
    if "--write" in sys.argv[1:]:
        LIST.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
