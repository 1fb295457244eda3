"""What lies beside the packages: the list of what they are made of, its signature, and what is known of libraries."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

from tests.citations import ROOT

CONTROL = ROOT / "packaging/deb/control"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LIBRARIES = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["coordinator"]]
NAMES = {"pyjwt": "python3-jwt", "pynacl": "python3-nacl", "pyyaml": "python3-yaml"}
gpg_is_there = pytest.mark.skipif(
    not (shutil.which("gpg") and shutil.which("gpgv")), reason="gpg and gpgv: apt install gpg gpgv"
)


def fields(paragraph):
    return dict(re.findall(r"^([A-Za-z-]+): *((?:.*)(?:\n[ \t].*)*)", paragraph, re.MULTILINE))


def depends(paragraph):
    text = re.sub(r"\$\{binary:Version\}", "0.1.0", fields(paragraph)["Depends"])
    return [each.strip() for each in text.split(",") if "${" not in each]


PARAGRAPHS = {fields(each)["Package"]: each for each in CONTROL.read_text().split("\n\n")[1:]}


@pytest.fixture
def packages(tmp_path):
    """Empty packages with the dependencies of the real ones, and what dpkg-buildpackage lays beside them."""
    out = tmp_path / "out"
    out.mkdir()
    for name, paragraph in PARAGRAPHS.items():
        tree = tmp_path / name
        (tree / "DEBIAN").mkdir(parents=True)
        needs = ", ".join(depends(paragraph))
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: 0.1.0\nArchitecture: all\nMaintainer: a <a@example.org>\n"
            f"Depends: {needs}\nDescription: a\n"
        )
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, out / f"{name}_0.1.0_all.deb"], check=True,
                       capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})  # fmt: skip
    (out / "holdfast_0.1.0_all.buildinfo").write_text("a")
    (out / "holdfast_0.1.0_all.changes").write_text("a")
    return out


def bill(out):
    subprocess.run([sys.executable, ROOT / "packaging/sbom", out], check=True, capture_output=True)
    return (out / "holdfast_0.1.0.cdx.json").read_bytes()


def test_the_list_names_each_package_by_its_hash_and_each_library(packages):
    found = json.loads(bill(packages))
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.5", 1)
    parts = {each["name"]: each for each in found["components"]}
    assert len(parts) == len(found["components"])
    for name in PARAGRAPHS:
        file = packages / parts[name]["properties"][0]["value"]
        assert parts[name]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}]
    for requirement in LIBRARIES:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower()
        said = {each["name"]: each["value"] for each in parts[NAMES.get(name, f"python3-{name}")]["properties"]}
        assert said["holdfast:pyproject"] == requirement
        assert re.fullmatch(r"python3-[a-z0-9-]+ \(>= [^)]+\)", said["holdfast:debian"])


def test_the_list_says_who_asks_for_what_and_nothing_that_is_not_in_it(packages):
    found = json.loads(bill(packages))
    refs = {each["bom-ref"]: each["name"] for each in found["components"]}
    graph = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    whole = found["metadata"]["component"]["bom-ref"]
    assert {refs[each] for each in graph.pop(whole)} == set(PARAGRAPHS)
    for ref, asked in graph.items():
        wanted = {re.split(r"[ :(]", each)[0] for each in depends(PARAGRAPHS[refs[ref]])}
        assert {refs[each] for each in asked} == wanted


def test_the_same_packages_have_the_same_list(packages):
    """`make deb-reproducible` compares it too"""
    assert bill(packages) == bill(packages)
    assert "cdx.json" in (ROOT / "packaging/reproduce").read_text()


@pytest.fixture
def owner():
    """A throw-away key. Its agent's socket needs a short path."""
    home = Path(tempfile.mkdtemp(prefix="hf"))
    environment = {**os.environ, "GNUPGHOME": str(home)}
    home.chmod(0o700)
    made = [
        "gpg",
        "--batch",
        "--passphrase",
        "",
        "--quick-generate-key",
        "Owner <owner@example.org>",
        "ed25519",
        "sign",
        "1d",
    ]
    subprocess.run(made, env=environment, check=True, capture_output=True)
    listed = subprocess.run(
        ["gpg", "--with-colons", "--list-keys"], env=environment, check=True, capture_output=True, text=True
    )
    yield re.search(r"^fpr:+([0-9A-F]{40}):", listed.stdout, re.MULTILINE)[1], environment
    subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=True, capture_output=True)
    shutil.rmtree(home, ignore_errors=True)


def ran(*command, at, environment=None):
    return subprocess.run(command, cwd=at, env=environment, capture_output=True, text=True, check=False)


@gpg_is_there
def test_a_release_is_signed_and_verified_as_the_page_says(packages, owner):
    """As SECURITY.md has it; what is changed afterwards, or signed by another, is refused."""
    key, environment = owner
    bill(packages)
    signed = ran(ROOT / "packaging/sign", packages, key, at=ROOT, environment=environment)
    assert signed.returncode == 0, signed.stderr
    ring = packages / "holdfast-release.gpg"
    ring.write_bytes(subprocess.run(["gpg", "--export", key], env=environment, check=True, capture_output=True).stdout)
    verify = ("gpgv", "--keyring", "./holdfast-release.gpg", "SHA256SUMS.asc", "SHA256SUMS")
    check = ("sha256sum", "--check", "--ignore-missing", "SHA256SUMS")
    for command in (verify, check):
        assert " ".join(command) in (ROOT / "SECURITY.md").read_text()
        done = ran(*command, at=packages)
        assert done.returncode == 0, done.stderr
    listed = {line.split()[1] for line in (packages / "SHA256SUMS").read_text().splitlines()}
    assert listed == {each.name for each in packages.iterdir()} - {"SHA256SUMS", "SHA256SUMS.asc", ring.name}

    (packages / "holdfastctl_0.1.0_all.deb").write_bytes(b"another")
    assert ran(*check, at=packages).returncode == 1
    sums = packages / "SHA256SUMS"
    sums.write_text(sums.read_text().replace("holdfastctl", "holdfastct1"))
    assert "BAD signature" in ran(*verify, at=packages).stderr
    ring.write_bytes(b"")
    assert ran(*verify, at=packages).returncode != 0


@gpg_is_there
def test_without_packages_or_key_nothing_is_signed(packages, owner, tmp_path):
    key, environment = owner
    missing = ran(ROOT / "packaging/sign", packages, key, at=ROOT, environment=environment)
    assert missing.returncode == 1 and "make deb" in missing.stderr
    bill(packages)
    assert ran(ROOT / "packaging/sign", packages, "0" * 40, at=ROOT, environment=environment).returncode != 0
    assert not (packages / "SHA256SUMS.asc").exists()


@gpg_is_there
def test_a_tag_is_signed_by_the_same_key(tmp_path, owner):
    key, environment = owner
    environment |= {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                    for what, value in (("NAME", "Owner"), ("EMAIL", "owner@example.org"))}  # fmt: skip
    for command in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "--no-gpg-sign", "-m", "a"),
                    ("tag", "--sign", "--local-user", key, "-m", "a", "v0.1.0"), ("verify-tag", "v0.1.0")):  # fmt: skip
        done = ran("git", *command, at=tmp_path, environment=environment)
        assert done.returncode == 0, (command, done.stderr)


def answered(*packages):
    return json.dumps({"dependencies": packages, "fixes": []})


CLEAN = {"name": "h11", "version": "0.16.0", "vulns": []}
BAD = {"name": "h11", "version": "0.14.0", "vulns": [{"id": "CVE-2025-43859", "fix_versions": ["0.16.0"]}]}
PASSED_OVER = {"name": "h11", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (answered(CLEAN), 0, "0 known vulnerabilities in 1 packages"),
        (answered(CLEAN, BAD), 1, "h11 0.14.0: CVE-2025-43859, mended in 0.16.0"),
        (answered(CLEAN, PASSED_OVER), 75, "1 unknown there"),
        (answered(BAD, PASSED_OVER), 1, "CVE-2025-43859"),
        (answered(PASSED_OVER), 75, "NOT LOOKED AT"),
        ("", 75, "NOT LOOKED AT: no source of advisories could be asked (no such host)"),
    ],
)
def test_an_audit_says_what_is_known_and_that_nothing_is(tmp_path, said, status, words):
    """A mirror without advisories is no clean bill of health."""
    program = tmp_path / "pip-audit"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\necho 'no such host' >&2\n")
    program.chmod(0o755)
    done = ran(sys.executable, ROOT / "tools/audit", program, at=ROOT)
    assert (done.returncode, done.stderr) == (status, "")
    assert words in done.stdout


def test_the_licence_is_the_one_that_the_packages_name():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text and len(text) > 10_000
    assert "License: Apache-2.0" in (ROOT / "packaging/deb/copyright").read_text()
