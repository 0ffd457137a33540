"""Functions and classes of C++ sources, with how long they are and what they hold.

This reads the text, not the language: it is right for code as clang-format leaves it, without
macros that open a brace.
"""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

# In a statement, what is no part of a declaration: attributes and annotations.
_ANNOTATION = re.compile(
    r"\bREPRISE_[A-Z_]+(?:\((?:[^()]|\([^()]*\))*\))?|\[\[[^\]]*\]\]|\balignas\([^)]*\)"
)
_NO_MEMBER = re.compile(
    r"^(using|friend|typedef|static|template|enum|class|struct|union|public|private"
    r"|protected|namespace|#|~|explicit|virtual|inline constexpr|constexpr)\b"
)
_LABELS = ("public", "private", "protected")
_ACCESS = re.compile(r"^(?:(?:public|private|protected)\s*:\s*)+")
_MEMBER = re.compile(r"[\w:*&\s\[\],.]+\s[*&\s]*\w+(\[[^\]]*\])?(\s*:\s*\w+)?")


class Function(NamedTuple):
    name: str
    lines: int


@dataclasses.dataclass
class Class:
    name: str
    members: int = 0


@dataclasses.dataclass
class _Scope:
    kind: str  # "namespace", "class", "function", "list" (of initializers), "other"
    line: int
    name: str = ""
    of: Class | None = None


def without_text(source: str) -> str:
    """The same lines, without comments, preprocessor lines and what quotes hold."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return re.sub(
        r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
        r'|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\\n])+\'',
        blank,
        source,
        flags=re.DOTALL | re.MULTILINE,
    )


def _without_parts(statement: str) -> str:
    """The declaration without annotations, template arguments and `private:`."""
    statement = _ANNOTATION.sub("", statement)
    before = None
    while before != statement:
        before, statement = statement, re.sub(r"<[^<>;{}]*>", "", statement)
    return _ACCESS.sub("", " ".join(statement.split()))


def _name_of(head: str) -> str:
    found = re.findall(r"([~\w:]+(?:operator\S+)?)\s*\(", head)
    return found[0] if found else head[:40]


def _is_member(statement: str) -> bool:
    declaration = _without_parts(statement)
    declaration = re.sub(r"^(mutable|inline)\s+", "", declaration)
    declared = re.split(r"[={]", declaration)[0].strip()
    if re.search(r"\(\s*\*\s*\w+\s*\)\s*\(", declared):
        return True  # a pointer to a function
    if not declared or "(" in declared or _NO_MEMBER.match(declared):
        return False
    if re.search(r"\boperator\b", declared):
        return False  # cut at its `=`
    return _MEMBER.fullmatch(declared) is not None


def read_shape(source: str) -> tuple[list[Function], list[Class]]:
    """All functions with a body, with lines from their first to their last, and all classes."""
    text = without_text(source)
    functions: list[Function] = []
    classes: list[Class] = []
    scopes: list[_Scope] = []
    begin = 0  # of the statement
    line = 1
    begin_line = 0
    parentheses = 0
    for at, character in enumerate(text):
        if character == "\n":
            line += 1
            continue
        if character.isspace():
            continue
        if begin_line == 0:
            begin, begin_line = at, line
        if character == ":" and text[begin:at].strip() in _LABELS:
            begin_line = 0
            continue
        if character == "(":
            parentheses += 1
        elif character == ")":
            parentheses -= 1
        if parentheses > 0 and character in "{};":
            # A lambda or a list among arguments, and a for's head.
            continue
        if character in "{};" and scopes and scopes[-1].kind == "list":
            # Within an initializer: a lambda's body, perhaps.
            if character == "{":
                scopes.append(_Scope("list", line))
            elif character == "}":
                scopes.pop()
            continue
        if character == "{":
            scope = _open(text[begin:at], begin_line, scopes)
            scopes.append(scope)
            if scope.of is not None:
                classes.append(scope.of)
            if scope.kind != "list":
                begin_line = 0
        elif character == "}":
            scope = scopes.pop()
            if scope.kind == "function":
                functions.append(Function(scope.name, line - scope.line + 1))
            if scope.kind != "list":
                begin_line = 0
        elif character == ";":
            inside = scopes[-1] if scopes else None
            if inside is not None and inside.of is not None:
                inside.of.members += _is_member(text[begin:at])
            begin_line = 0
    return functions, classes


def _open(head: str, line: int, scopes: list[_Scope]) -> _Scope:
    inside = scopes[-1].kind if scopes else "namespace"
    plain = _without_parts(head)
    if inside not in ("namespace", "class"):
        return _Scope("other", line)
    if re.match(r"(inline )?namespace\b|extern\s*$", plain):
        return _Scope("namespace", line)
    if re.match(r"(template\s*)?(class|struct|union)\b", plain) and "(" not in plain:
        name = re.match(r"(?:template\s*)?(?:class|struct|union)\s+([\w:]+)?", plain)
        return _Scope("class", line, of=Class((name and name[1]) or "unnamed"))
    if re.match(r"enum\b", plain):
        return _Scope("other", line)
    # Behind a constructor's head: a member that braces initialize.
    if re.search(r"\)\s*(?:noexcept\s*)?:[^:].*\w$", plain):
        return _Scope("list", line)
    is_value = re.search(r"=\s*$", plain) or re.match(r"\w[\w:\s]*=\s", plain)
    if "(" in plain and not is_value:
        return _Scope("function", line, name=_name_of(plain))
    return _Scope("list", line)
