"""Every `HttpError(status, "code", ...)` in the source, read by ast, and what each code means."""

import ast
from typing import NamedTuple

from tests.source import modules


class HttpCode(NamedTuple):
    status: int
    code: str


MEANINGS: dict[str, tuple[str, str]] = {
    "bad_request": ("The request is malformed, or a member is out of form.", "Correct what the message names."),
    "expired": (
        "The scope's time is over; the headers name its last version.",
        "Bring the coordinator back, or import a renewed document; `?expired=allow` reads it where policy permits.",
    ),
    "forbidden": ("This caller may not ask this, or not here.", "Ask as root or as the agent's own account."),
    "forbidden_origin": ("A web page asks: there is an Origin header.", "Ask from a program."),
    "internal_error": ("A fault of the program's own; the log has it.", "Report it with the log."),
    "method_not_allowed": ("The path has other methods; `Allow` names them.", "Use one of them."),
    "misdirected_request": ("The Host header names another host.", "Use one of those that the message names."),
    "not_enrolled": ("The node has pinned no root keys yet, so none can be confirmed.", "Let it join: holdfast join."),
    "other_roots": (
        "The root keys that this node holds are not those that were named. Nothing was confirmed.",
        "Find out who answered its join: stop it, remove its state directory, join by a join file.",
    ),
    "not_found": ("There is nothing at this path, or it is not for this caller.", "List what there is."),
    "not_listed": ("The head does not list what was handed in.", "Import the head that lists it first."),
    "not_ready": ("Nothing can be said at this moment.", "Ask again after `Retry-After`."),
    "overloaded": ("More work than this listener takes at a time; the costly requests go first.", "As `not_ready`."),
    "shutting_down": ("The process is stopping.", "Ask again; another replica answers meanwhile."),
    "timed_out": ("Request or answer took longer than its limit.", "Ask again; look at load and disk if it stays."),
    "too_large": ("The body is larger than the route takes.", "Make it smaller, or raise the limit that is named."),
    "too_many_requests": (
        "More joins from one address, or reports or documents at once of one node, than are allowed.",
        "Ask again after `Retry-After`.",
    ),
    "unavailable": (
        "The coordinator cannot reach its database at this moment. Nothing was decided, and nothing is lost.",
        "Ask again after `Retry-After`; nodes do so by themselves. Look at the database if it stays.",
    ),
    "permission_denied": ("Only root and the service's own user are answered here.", "Use `sudo -u`, or root."),
}


def codes() -> list[HttpCode]:
    """Of all packages, by status and code."""
    found = {
        code
        for module in modules()
        for node in ast.walk(module.tree)
        for code in ([_code(node)] if _code(node) else [])
    }
    return sorted(found)


def _code(node: ast.AST) -> HttpCode | None:
    match node:
        case ast.Call(
            func=ast.Name(id="HttpError"), args=[ast.Constant(value=int(status)), ast.Constant(value=str(code)), *_]
        ):
            return HttpCode(status, code)
    return None
