"""Which functions are named by a participle: `shown`, `_held`, `looked_up` tell the past of a thing, not what it is.

A function is named by a verb (`show`, `read_head`), by the noun that it returns (`held_bundles`, `_failure`) or as a
predicate (`is_held`, `threshold_is_met`). A participle before a noun is an adjective and welcome, and so is one after
a verb, whose object it is (`check_pinned`, `drop_damaged`); one that ends a name with no verb in it is neither.
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IRREGULAR = _words(
    "begun bound broken brought built chosen drawn driven fallen felt forgotten found given gone grown heard held"
    " hidden kept known laid left lost made meant met paid proven risen said seen sent shown spoken stolen swept taken"
    " taught thought thrown told turned understood went woken worn written"
)
"""Past forms without -ed, those aside that are verbs as well: read, put, set, cut, run, come."""

NO_PARTICIPLES = _words("bed embed exceed feed ied need proceed red seed speed succeed")
"""Words in -ed that are none."""

PREDICATES = _words("is are was has can may must")
"""With one of these anywhere, a name is a sentence that is true or not."""

VERBS = _words(
    "add ask bring check confirm discard drop find forget keep leave list load log make mark note open print prune"
    " put read refuse reject remove render raise rehearse report require return say send show sign take tell wait write"
)
"""Verbs with which names begin whose object ends in a participle: `refuse_unless_closed`, `wait_settled`."""

FOLLOWERS = _words("again apart away back between by down for from in of off on out over since up with")
"""After a participle these belong to it: `taken_away` is one as `taken` is; `judged_head` and `judged_at` are nouns."""


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (len(word) > 3 and word.endswith("ed") and word not in NO_PARTICIPLES)


def is_named_by_participle(name: str) -> bool:
    """Of a function's name, with or without its underscores."""
    words = name.strip("_").split("_")
    if words[0] in VERBS or not PREDICATES.isdisjoint(words):
        return False
    return is_participle(words[-1]) or (is_participle(words[0]) and words[1] in FOLLOWERS)
