"""Texts of YAML files -> declared resources, or everything that is wrong with them: file, line, field, remedy.

    read(texts, cluster_id)              the resources, each valid in itself
    check(resources, cluster_id)         whether they hold together, with what is already declared

Secrets and content that no scope may carry are refused here already, by the detector of the nodes (rules S78, S23), and
what a wider table of the coordinator's own takes for a secret (value_shapes.py), unless the declaration exempts it.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from coordinator.base import private_key_scan
from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.declared import kinds, value_shapes, yaml_source
from coordinator.declared.fields import ID_REMEDY, FieldFault
from coordinator.declared.kinds import BY_NAME, EXEMPTING, Config, EgressResource, Resource
from coordinator.declared.model import Key, Model
from coordinator.declared.references import faults_of
from coordinator.declared.value_shapes import Shapes
from coordinator.declared.yaml_source import UnreadableYaml, YamlDocument
from snapshot import secrets
from snapshot.content import FORBIDDEN_MEMBERS
from snapshot.identifiers import is_id

NAME = "(name)"  # the field of what is wrong with a file's name
WHOLE = "(document)"  # the field of what is wrong with no member alone
_MEMBERS = ("kind", "id", "spec")
_MOST_SHOWN = 1_024
_REFERENCE = 'keep it in a secret store and write {secret_ref: "<resolver>:<path>"}'
# `Service.settings` is the one place for what others have named; a text in it is not read.
_OTHERS_NAME = (
    "if it is no secret, and a name that another program has given, write that program's file as one text"
    " (settings: {file: |...}): names are not looked at in texts"
)


@dataclass(frozen=True)
class DeclaredProblem:
    """One thing wrong, where it is, and what to do. `field`: the member's path, or in brackets what has none."""

    file: str
    line: int
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field}: {self.message} ({self.remedy})"


class InvalidResources(Refused):
    """Everything that is wrong at once; nothing was applied."""

    def __init__(self, problems: Iterable[DeclaredProblem], code: Code = Code.INVALID_RESOURCES) -> None:
        self.problems = tuple(sorted(problems, key=lambda each: (each.file, each.line, each.field)))
        super().__init__(code, f"{len(self.problems)} problems: {self.problems[0]}")


@dataclass(frozen=True)
class Declared:
    """A resource and where it was written."""

    resource: Resource
    file: str
    source: YamlDocument

    def problem(self, fault: FieldFault) -> DeclaredProblem:
        return _problem(self.file, self.source.line(fault.path), fault)


def read(texts: Mapping[str, str], shapes: Shapes | None = None) -> dict[Key, Declared]:
    """Every resource of the texts (file name to YAML), by kind and id; InvalidResources with all that is wrong.

    `shapes`: what values are taken for secrets, where it is not what is shipped.
    """
    declared: dict[Key, Declared] = {}
    problems: list[DeclaredProblem] = []
    for file in sorted(texts):
        if not _is_unicode(file):
            problems.append(_problem(file, 1, FieldFault((NAME,), "is not UTF-8", "rename the file")))
        for entry in _read_file(
            file, texts[file], value_shapes.shipped_shapes() if shapes is None else shapes, problems
        ):
            first = declared.setdefault(entry.resource.key, entry)
            if first is not entry:
                where = f"{first.file}:{first.source.line(())}"
                problems.append(
                    entry.problem(FieldFault(("id",), f"is declared at {where} already", "keep one of them"))
                )
    if problems:
        raise InvalidResources(problems)
    return declared


def check(declared: Mapping[Key, Declared], kept: Mapping[Key, Resource], cluster_id: str) -> None:
    """Whether what is declared, with what is `kept` beside it, holds together; InvalidResources otherwise."""
    check_in(declared, Model(cluster_id, {**kept, **{key: entry.resource for key, entry in declared.items()}}))


def check_in(declared: Mapping[Key, Declared], together: Model) -> None:
    """The same in a state that holds what is declared, and what stays beside it."""
    problems = []
    for resource, fault in faults_of(together):
        origin = declared.get(resource.key)
        if origin is not None:
            problems.append(origin.problem(fault))
        else:
            remedy = f"{fault.remedy}; or delete {resource.KIND} {resource.id} too"
            there = f"(declared) {resource.KIND} {resource.id}"
            problems.append(_problem(there, 0, FieldFault(fault.path, fault.message, remedy)))
    if problems:
        raise InvalidResources(problems)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _read_file(file: str, text: str, shapes: Shapes, problems: list[DeclaredProblem]) -> Iterator[Declared]:
    try:
        for source in yaml_source.documents(text):
            faults: list[FieldFault] = []
            resource = _resource(source.value, shapes, faults)
            problems += [_problem(file, source.line(fault.path), fault) for fault in faults]
            if resource is not None:
                yield Declared(resource, file, source)
    except UnreadableYaml as error:
        problems.append(_problem(file, error.line, FieldFault(error.path, error.message, error.remedy)))


def _resource(value: object, shapes: Shapes, faults: list[FieldFault]) -> Resource | None:
    if not isinstance(value, dict):
        faults.append(FieldFault((), "a resource is a mapping", "write `kind`, `id` and `spec`"))
        return None
    faults += _check_names(value)
    if faults:
        return None
    kind, id_, spec = value["kind"], value["id"], value.get("spec")
    resource = kinds.read(BY_NAME[kind], id_, spec if spec is not None else {}, ("spec",), faults)
    for path, part in _apart(kind, spec):
        faults += _forbidden(part, path)
    refused = {fault.path for fault in faults}
    exempt = (
        {(exemption.at, exemption.family) for exemption in resource.exempt}
        if isinstance(resource, EXEMPTING)
        else set()
    )
    faults += (exemption for exemption in _suspicious(spec, shapes, exempt, kind) if exemption.path not in refused)
    return None if faults else resource


def _check_names(value: Mapping[str, object]) -> Iterator[FieldFault]:
    """What of `kind`, `id` and `spec` is missing, unknown or wrong; what `spec` holds is the kind's."""
    for name in sorted(value.keys() - set(_MEMBERS)):
        yield FieldFault((name,), "is not a member of a resource", _nearest(name, "members", _MEMBERS))
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in BY_NAME:
        message = f"{bound_text(str(kind), 64)} is no kind of resource" if "kind" in value else "is missing"
        yield FieldFault(("kind",), message, _nearest(str(value.get("kind", "")), "kinds", BY_NAME))
    if not is_id(value.get("id")):
        yield FieldFault(("id",), "must be an id" if "id" in value else "is missing", ID_REMEDY)


def _nearest(name: str, what: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"known {what}: {', '.join(known)}"


def _apart(kind: str, spec: object) -> Iterator[tuple[yaml_source.Path, object]]:
    """What is looked at together. Of a Config each file by itself: its path is the name of a file, and of nothing that
    could be a secret (format.md 11). A schema's texts are looked at, not its names: they are of what others hold.
    """
    if kind == EgressResource.KIND and isinstance(spec, dict) and isinstance(spec.get("schema"), dict):
        yield ("spec",), {name: inner for name, inner in spec.items() if name != "schema"}
        yield from private_key_scan.strings(spec["schema"], ("spec", "schema"))
        return
    if kind != Config.KIND or not isinstance(spec, dict) or not isinstance(spec.get("files"), dict):
        yield ("spec",), spec
        return
    yield ("spec",), {name: inner for name, inner in spec.items() if name != "files"}
    for path, file in spec["files"].items():
        yield ("spec", "files", path), file


def _forbidden(spec: object, around: yaml_source.Path) -> Iterator[FieldFault]:
    """What no scope may carry (format.md 7, 9). The value itself is never shown (threats D-55)."""
    finding = secrets.find_secret(spec)
    if finding is not None:
        path = (*around, *_path(spec, finding.pointer))
        message = f"holds a raw secret ({finding.detector})"
        yield FieldFault(path, message, f"{_REFERENCE}; {_OTHERS_NAME}" if finding.detector == "name" else _REFERENCE)
    hidden = private_key_scan.find(spec, around)
    if hidden is not None:
        yield FieldFault(hidden, "holds a private key in base64", 'write {secret_ref: "<resolver>:<path>"}')
    for at, name in _names(spec, around):
        if name in FORBIDDEN_MEMBERS:
            yield FieldFault(at, f"`{name}` is authority that no node is given", "remove it")


def _suspicious(spec: object, shapes: Shapes, exempt: set[tuple[str, str]], kind: str) -> Iterator[FieldFault]:
    """What the coordinator's own table takes for a secret. The value itself is never shown (threats D-55)."""
    texts = list(private_key_scan.strings(spec, ()))
    if next(value_shapes.families_in(shapes, "\n".join(text for _, text in texts)), None) is None:
        return
    for path, text in texts:
        for family in value_shapes.families_in(shapes, text):
            told = tuple(_unless_secret(part, shapes) for part in path)
            at = _dot(told)
            if (at, family) not in exempt:
                beside = "files" if kind == Config.KIND else "settings"
                way = f"; if it is none, beside `{beside}`: {exemption(at, family)}"
                remedy = _REFERENCE + (way if issubclass(BY_NAME[kind], EXEMPTING) else "")
                yield FieldFault(("spec", *told), f"looks like {shapes[family].about} ({family})", remedy)


def exemption(at: str, family: str) -> str:
    """What lets a member pass, as it is to be written; only its reason is missing."""
    return f"exempt: [{{at: {yaml_source.quote(at)}, family: {yaml_source.quote(family)}, because: ...}}]"


def _unless_secret(part: str | int, shapes: Shapes) -> str | int:
    """A name that is a secret itself is not repeated."""
    if isinstance(part, str) and (secrets.shape_of(part) or next(value_shapes.families_in(shapes, part), None)):
        return "(secret)"
    return part


def _names(value: object, path: yaml_source.Path) -> Iterator[tuple[yaml_source.Path, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name), name
            yield from _names(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _names(inner, (*path, index))


def _path(value: object, pointer: str) -> yaml_source.Path:
    """A JSON pointer as a path: only in a list a number is an index. A name that is not shown leads nowhere."""
    path: yaml_source.Path = ()
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            path, value = (*path, int(name)), value[int(name)]
        else:
            path, value = (*path, name), value.get(name) if isinstance(value, dict) else None
    return path


def _problem(file: str, line: int, fault: FieldFault) -> DeclaredProblem:
    """Names and values are whatever somebody wrote: a terminal is to show them, and JSON to carry them."""
    field = bound_text(_dot(fault.path), _MOST_SHOWN) if fault.path else WHOLE
    return DeclaredProblem(
        bound_text(file, _MOST_SHOWN), line, field, bound_text(fault.message, _MOST_SHOWN), fault.remedy
    )


def _dot(path: yaml_source.Path) -> str:
    text = ""
    for part in path:
        name = part if part != "" else '""'
        text += f"[{name}]" if isinstance(name, int) else (f".{name}" if text else name)
    return text
