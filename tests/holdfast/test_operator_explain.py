"""`holdfastctl explain NODE SCOPE`, for people: each thing that an answer may say has words."""

import json

import pytest

from holdfast.ctl.explain import STANDINGS, STANDS, _render_all, _render_one, _render_value, _with_places
from tests.holdfast.operator_lab import running
from wire.operators.fleet_answers import EntryExplanation, Holders, NodeExplanation, PublishedFacts, ScopeExplanation

SIGNER = {
    "key_id": "sha256:ab",
    "status": "active",
    "fault": None,
    "purpose": "config",
    "not_before": "2027-01-15T08:00:00Z",
    "not_after": "2028-01-15T08:00:00Z",
}
ACTIVE = {"authority_epoch": 1, "config_version": 2, "content_hash": "sha256:cd"}
REPORTED = {"at": 1_800_000_000.0, "state": "active", "active": ACTIVE, "pending": None, "last_refused": None}
ANSWER = {
    "node_id": "gateway",
    "scope": "route_policy",
    "may_hold": True,
    "because": "granted by the role ingress",
    "rules": ["format.md 9", "rules S17"],
    "notes": [],
    "published": {
        **ACTIVE,
        "snapshot_id": "doc-2",
        "published_at": 1_800_000_000.0,
        "issued_at": "2027-01-15T08:00:00Z",
        "refresh_after": "2027-01-16T08:00:00Z",
        "expires_at": "2027-01-22T08:00:00Z",
        "min_trust_bundle_version": 1,
        "roles": ["ingress"],
        "organization_ids": ["acme"],
        "subject_node_id": "gateway",
        "signers": [SIGNER],
        "threshold": 1,
    },
    "differs": {},
    "sections": [
        {"name": "routes.0a", "size": 12, "sha256": "00", "value": {"front": {"ttl_s": 1}}, "is_shown": True},
        {"name": "routes.3f", "size": 4096, "sha256": "00", "value": None, "is_shown": False},
    ],
    "entries": [
        {
            "section": "routes.0a",
            "entry": "front",
            "stands": "as_declared",
            "because": "it enters here",
            "sources": [{"kind": "Route", "id": "front"}],
        }
    ],
    "entries_total": 1,
    "holders": {"standing": "same", "reported": REPORTED, "published_for": 0, "others": [], "others_total": 0},
}


def said(**changes: object) -> ScopeExplanation:
    return ScopeExplanation.read(json.dumps({**ANSWER, **changes}).encode())


def shown(capsys: pytest.CaptureFixture[str], **changes: object) -> str:
    _render_one(said(**changes))
    return capsys.readouterr().out


def test_rule_version_signer_value_source_and_holder_are_said(capsys) -> None:
    out = shown(capsys)
    for word in (
        "yes: granted by the role ingress (format.md 9, rules S17)",
        "1.2, document doc-2",
        "sha256:ab (config, active, until 2028-01-15T08:00:00Z)",
        '{"front": {"ttl_s": 1}}',
        "holdfastctl explain gateway route_policy --section routes.3f",
        "Route front",
        "it enters here",
        "holds it: version 1.2, reported 2027-01-15T08:00:00Z as active",
        "nobody else",
    ):
        assert word in out
    assert "about to change" not in out and "more:" not in out


def test_whom_a_document_is_for_is_said(capsys) -> None:
    assert "the node gateway alone" in shown(capsys)
    out = shown(capsys, published={**ANSWER["published"], "subject_node_id": "*"})
    assert "every node with the role ingress and the organization acme whose head lists it" in " ".join(out.split())


def test_of_all_scopes_each_says_whom_it_is_for(capsys) -> None:
    """An older coordinator does not say it."""
    told = {**ANSWER["published"], "roles": [], "organization_ids": [], "sections": {}, "subject_node_id": "*"}
    facts = {name: told[name] for name in told if name in PublishedFacts.__dataclass_fields__}
    older = {name: value for name, value in facts.items() if name != "subject_node_id"}
    scopes = [
        {"scope": scope, "may_hold": True, "because": "it is", "published": published}
        for scope, published in (("config/edge", facts), ("config/old", older), ("config/new", None))
    ]
    _render_all(NodeExplanation.read(json.dumps({"node_id": "gateway", "scopes": scopes}).encode()))
    *_, edge, old, new = capsys.readouterr().out.splitlines()
    assert "every node whose head lists it" in edge
    assert old.split()[-2:] == ["-", "-"] and new.split()[-3:] == ["-", "-", "-"]


def test_what_is_wrong_is_said_aloud(capsys) -> None:
    old = {**SIGNER, "status": "revoked", "fault": "key_revoked"}
    gone = {**SIGNER, "status": "unknown", "fault": "unknown_key", "purpose": None, "not_after": None}
    published = {**ANSWER["published"], "signers": [old, gone]}
    reported = {**REPORTED, "pending": 3, "last_refused": "bad_signature"}
    others = [f"n{number}" for number in range(50)]
    held = {
        "standing": "other_content",
        "reported": reported,
        "published_for": 70,
        "others": others,
        "others_total": 60,
    }
    out = shown(
        capsys,
        published=published,
        notes=["a recovery"],
        differs={"routes.0a": "patch"},
        entries_total=9,
        holders=held,
    )
    for word in (
        "config, revoked, until 2028-01-15T08:00:00Z, REFUSED: key_revoked",
        "sha256:ab (not in the trust bundle, REFUSED: unknown_key)",
        "2, of which 1 are asked for",
        "a recovery",
        "routes.0a=patch",
        "8 more: --most, or --section",
        "HOLDS ANOTHER CONTENT",
        "version 3 waits for its time, last refused: bad_signature",
        "n49 and 10 more",
        "70 others",
    ):
        assert word in out.replace("\n", " ")


def test_of_what_a_node_may_not_hold_nothing_is_shown(capsys) -> None:
    none = {"standing": "unheard", "reported": None, "published_for": 0, "others": [], "others_total": 0}
    out = shown(capsys, may_hold=False, published=None, sections=[], entries=[], entries_total=0, holders=none)
    assert "no: granted by" in out and "has not reported yet" in out
    assert "version" not in out and "section" not in out


def test_every_standing_has_words() -> None:
    for cls, words in ((Holders, STANDINGS), (EntryExplanation, STANDS)):
        named = {each for each in (cls.__doc__ or "").split("`")[1::2] if each not in ("standing", "stands")}
        assert named == set(words)


def test_a_section_alone_is_its_value(capsys) -> None:
    _render_value(said(sections=ANSWER["sections"][:1]))
    assert json.loads(capsys.readouterr().out) == {"front": {"ttl_s": 1}}
    _render_value(said(sections=[]))
    assert "not published yet" in capsys.readouterr().err


def test_a_source_that_the_files_declare_has_its_place(capsys) -> None:
    places = {("Route", "front"): "fabric/web.yaml:12"}
    placed = _with_places(said(), places)
    assert placed["entries"][0]["sources"] == ({"kind": "Route", "id": "front", "declared_in": "fabric/web.yaml:12"},)
    _render_one(said(), places)
    assert "Route front (fabric/web.yaml:12)" in capsys.readouterr().out
    assert _with_places(said(), {})["entries"][0]["sources"][0]["declared_in"] is None


def test_a_source_has_the_place_that_it_was_applied_from(capsys) -> None:
    """Where the files that are given now do not say another."""
    source = {"kind": "Route", "id": "front", "declared_in": "fabric/web.yaml:7"}
    answer = said(entries=[{**ANSWER["entries"][0], "sources": [source, {"kind": "member", "id": "gateway"}]}])
    _render_one(answer)
    assert "Route front (fabric/web.yaml:7), member gateway " in capsys.readouterr().out
    _render_one(answer, {("Route", "front"): "fabric/web.yaml:12"})
    assert "Route front (fabric/web.yaml:12)" in capsys.readouterr().out
    assert _with_places(answer, {})["entries"][0]["sources"][0]["declared_in"] == "fabric/web.yaml:7"


def test_of_what_was_applied_before_places_were_kept_none_is_made_up(capsys) -> None:
    assert "Route front (not known until the next apply)" in shown(capsys)


def test_a_word_that_a_later_coordinator_has_is_shown_as_it_is(capsys) -> None:
    entry = {**ANSWER["entries"][0], "stands": "half_declared"}
    holders = {**ANSWER["holders"], "standing": "elsewhere"}
    out = shown(capsys, entries=[entry], holders=holders)
    assert "half_declared" in out and "elsewhere" in out


def test_what_there_is_not_and_what_is_asked_wrongly(tmp_path) -> None:
    with running(tmp_path) as lab:
        for arguments, status, word in (
            (("gateway",), 4, "nodes list"),
            (("gateway", "route_policy"), 4, "gateway is no member"),
            (("gateway", "routes"), 4, "route_policy"),
            (("gateway", "--section", "routes.00"), 2, "name it"),
            (("gateway", "route_policy", "--most", "0"), 2, "--most"),
            (("gateway", "route_policy", "-f", "nowhere"), 2, "nowhere"),
        ):
            ran = lab.ctl("explain", *arguments)
            assert (ran.status, ran.out) == (status, ""), ran
            assert word in ran.err
