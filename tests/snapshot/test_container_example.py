"""format.md 13: the document that the page takes apart, taken apart here without any code of ours."""

import hashlib
import json

from tests.citations import ROOT

PAGE = (ROOT / "docs/format.md").read_text()
TYPE = b"application/vnd.holdfast.snapshot.v1+json"


def test_the_example_is_as_the_page_says():
    """rules S11"""
    data = (ROOT / "tests/vectors/documents/good-no-sections.hfs").read_bytes()
    assert data[:2] == b"\x94\xc5"
    length = int.from_bytes(data[2:4], "big")
    envelope, rest = data[4 : 4 + length], data[4 + length :]
    assert rest[:4] == b"\x91\x92\xd9\x47"
    assert rest[4:75].startswith(b"sha256:") and rest[75:77] == b"\xc4\x40"
    assert rest[141:] == b"\xc4\x02{}\x90"

    signed = b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE, len(envelope), envelope)
    assert f"length of the envelope            {length}\n" in PAGE
    assert f"SHA-256 of what is signed         {hashlib.sha256(signed).hexdigest()}\n" in PAGE
    content_hash = json.loads(envelope)["content_hash"]
    assert content_hash == "sha256:" + hashlib.sha256(b"{}").hexdigest()
    assert f"`content_hash` of the envelope    {content_hash}\n" in PAGE
