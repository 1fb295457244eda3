"""Sites: `default` is made by `init` and stays; any other stands while it is declared (rules K12, seed 002).

follow          the rows of `sites`, with the declarations that an apply changes
problems        why a declaration may not go: somebody still stands there, or may still come
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import Select, delete, insert, select

from coordinator.database import cluster_state, schema
from coordinator.database.database import Transaction
from coordinator.declared.kinds import Site
from coordinator.declared.plans import ResourceChange
from coordinator.declared.references import DEFAULT_SITE
from coordinator.declared.resources import DeclaredProblem

_SHOWN = 3  # of those that a problem names


def follow(transaction: Transaction, made: Sequence[ResourceChange]) -> None:
    """Each declared site has a row with a generation of its own; each that is declared no more has none."""
    changed = [change for change in made if change.key[0] == Site.KIND]
    generations = cluster_state.site_generations(transaction) if changed else {}
    for change in changed:
        site_id = change.key[1]
        if site_id == DEFAULT_SITE or change.verb == "change":
            cluster_state.raise_sites(transaction, [site_id])
        elif change.after is not None:
            transaction.run(insert(schema.sites).values(site_id=site_id, generation=1, created_at=transaction.now))
            transaction.audit("site.add", site_id, None, {"generation": 1})
        else:
            transaction.run(delete(schema.sites).where(schema.sites.c.site_id == site_id))
            transaction.audit("site.remove", site_id, {"generation": generations[site_id]})


def problems(transaction: Transaction, made: Sequence[ResourceChange]) -> Iterator[DeclaredProblem]:
    """Of every site that would go and that a member, an entry of the allowlist or an open token names."""
    for change in made:
        kind, site_id = change.key
        if kind != Site.KIND or change.after is not None or site_id == DEFAULT_SITE:
            continue
        for chosen, what, remedy in _uses(site_id, transaction.now):
            names = sorted(row[0] for row in transaction.rows(chosen))
            if names:
                message = f"{what} {_names(names)}"
                yield DeclaredProblem(
                    f"(declared) {kind} {site_id}", 0, "id", message, f"{remedy}, or keep the Site declared"
                )


def _uses(site_id: str, now: float) -> Iterator[tuple[Select[tuple[str]], str, str]]:
    """Who may name a site. Who is revoked stays in the catalog and stands nowhere; whoever is readmitted is asked."""
    nodes, allowlist, tokens = schema.nodes, schema.allowlist, schema.tokens
    members = select(nodes.c.node_id).where(nodes.c.site_id == site_id, nodes.c.revoked_at.is_(None))
    yield members, "there stand", "holdfastctl nodes remove them"
    entries = select(allowlist.c.node_id).where(allowlist.c.site_id == site_id)
    yield entries, "there may join", "holdfastctl allow remove them"
    unused = (tokens.c.used < tokens.c.uses) & tokens.c.revoked_at.is_(None) & (tokens.c.expires_at > now)
    yield (
        select(tokens.c.jti).where(tokens.c.site_id == site_id, unused),
        "it is named by tokens",
        ("holdfastctl tokens revoke them"),
    )


def _names(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
