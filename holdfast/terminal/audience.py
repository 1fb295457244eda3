"""Whom a document is for, in words, from what its envelope says (format.md 4 and 7, steps 3 and 10).

    every member of the cluster                     a trust bundle
    the node gateway alone                          a document of its own
    every node whose head lists it                  a shared one that asks for nothing more: most Configs
    every node with the role ingress and the organization acme whose head lists it

A shared document names no node. Who is given it follows from what is declared (`to`, roles, labels, organizations), and
its head says so to each node; a node refuses it unless it has all of the roles and organizations that are named.
"""

from collections.abc import Sequence

EVERYBODY = "*"  # in place of a node's id
_TRUST_BUNDLE = "trust_bundle"


def describe_audience(scope: str, subject: str, roles: Sequence[str], organizations: Sequence[str]) -> str:
    """`subject`: the node that the document names, or `*`."""
    if scope == _TRUST_BUNDLE:
        return "every member of the cluster"
    if subject != EVERYBODY:
        return f"the node {subject} alone"
    asked = [_phrase(what, names) for what, names in (("role", roles), ("organization", organizations)) if names]
    with_all = f" with {' and '.join(asked)}" if asked else ""
    return f"every node{with_all} whose head lists it"


def _phrase(what: str, names: Sequence[str]) -> str:
    """`the role a`, `the roles a, b`."""
    plural = "s" if len(names) > 1 else ""
    return f"the {what}{plural} {', '.join(names)}"
