"""What an ideal flow graph would follow of recorded streams.

    python perf/programs.py --host --size small --record FOLDER --record-passes 24
    python perf/flow_graph.py [--passes-told] [--by-words] FOLDER/*.jsonl

A stream is a walk from junction to junction: a trie of ops behind each place where a
walk begins (a cut, the end of a path, a first op that comes again on its weights). An op
goes by its words, and by which of its operands the walk has made. A path goes on as long
as one way is nearly always taken. From its sixth walk on a path is followed; one that is
left before its end is lost. This is an upper bound: a plan costs nothing, is there at
once, and fails for nothing else. It judges docs/decisions/0054-one-flow-graph.md, and is
no part of the product. ``play_streams`` (docs/development.md) gives the scheduler's share.

``--passes-told``: walks begin where the recording says that a pass begins, as if loops
were found perfectly. ``--by-words``: beginnings are not told apart by their weights.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import math
import pathlib
from collections.abc import Iterator
from typing import Any

_NUMBERS = {"other", "value", "alpha", "beta", "fill_value", "self", "scalar"}
_DECIDING = {0.0, 0.5, 1.0, 2.0, 3.0, -0.5, -1.0, -2.0, -3.0}
_UNSHOWN = ("aten::empty", "aten::new_empty", "profiler::")
_READY = 5  # walks: seen, recorded twice, validated twice
_NEARLY_ALWAYS = 0.85
_SHORTEST = 4  # ops that a first op does not come again within
_LONGEST = 4096
_MOST_BEGINNINGS = 64  # with one op's words

Key = tuple[int, tuple[Any, ...]]


@dataclasses.dataclass
class Op:
    """An op of a stream. Storages are numbers."""

    in_pass: int
    words: int
    operands: list[int]
    made: list[int]
    is_cut: bool


@dataclasses.dataclass
class Node:
    """A place in the trie of walks."""

    next: dict[Key, Node] = dataclasses.field(default_factory=dict)
    walks: int = 0

    def usual(self) -> Key | None:
        """Return the way that is nearly always taken."""
        if self.walks < _READY or not self.next:
            return None
        key, node = max(self.next.items(), key=lambda way: way[1].walks)
        often = max(_NEARLY_ALWAYS * (self.walks - 1), _READY - 1)
        return key if node.walks >= often else None


def _argument(name: str, text: str) -> str:
    """Return what tells an argument: of a number that kernels take, its sign."""
    try:
        value = float(text)
    except ValueError:
        return text
    is_integer = not any(letter in text for letter in ".en")
    if (is_integer and name not in _NUMBERS) or value in _DECIDING:
        return text
    if not math.isfinite(value):
        return text
    return "+" if value > 0 else "-"


def read(path: pathlib.Path) -> Iterator[Op]:
    """Yield the ops that a binding shows."""
    in_pass = 0
    for line in path.read_text().splitlines():
        said = json.loads(line)
        if "pass" in said:
            in_pass = said["pass"]
        elif "read" in said:
            yield Op(in_pass, 0, [], [], is_cut=True)
        elif "op" in said:
            op = _op(in_pass, said)
            is_empty = said["op"].startswith(_UNSHOWN)
            if op.is_cut or said.get("writes") or (op.made and not is_empty):
                yield op


def _op(in_pass: int, said: dict[str, Any]) -> Op:
    operands = [tensor[0] for tensor in said["in"]]
    made = [tensor[0] for tensor in said["out"] if tensor[0] not in operands]
    forms = tuple((t[4], tuple(t[2] or ()), tuple(t[3] or ())) for t in said["in"])
    rest = said.get("rest", {})
    arguments = tuple((name, _argument(name, rest[name])) for name in sorted(rest))
    words = hash((said["op"], forms, arguments))
    return Op(in_pass, words, operands, made, bool(said.get("reads")))


class FlowGraph:
    """Walks a stream, and counts by pass what would be followed."""

    def __init__(self, *, by_weights: bool) -> None:
        self.followed: collections.Counter[int] = collections.Counter()
        self._by_weights = by_weights
        self._beginnings: dict[int, list[tuple[list[int], Node]]] = {}
        self._node: Node | None = None
        self._first: Op | None = None
        self._length = 0
        self._values: dict[int, int] = {}  # that the walk has made
        self._path: list[Key] | None = None  # that is followed, behind its first op
        self._passes: list[int] = []  # of its ops that have come

    def end(self) -> None:
        """The walk is over."""
        if self._is_at_end():
            self.followed.update(self._passes)
        self._node = self._path = None

    def walk(self, op: Op) -> None:
        """Go on with an op that is no cut."""
        if self._node is not None and self._comes_round(op):
            self.end()
        if self._node is None or self._is_at_end():
            self._begin(op)
        else:
            self._go_on(op)
        for storage in op.made:
            self._values[storage] = len(self._values)

    def _is_at_end(self) -> bool:
        return self._path is not None and len(self._passes) == len(self._path) + 1

    def _comes_round(self, op: Op) -> bool:
        first = self._first
        assert first is not None
        on_weights = any(
            a == b and a not in self._values
            for a, b in zip(op.operands, first.operands, strict=False)
        )
        is_again = self._length >= _SHORTEST and op.words == first.words and on_weights
        return is_again and (self._path is None or self._is_at_end())

    def _begin(self, op: Op) -> None:
        self.end()
        self._values, self._first, self._length = {}, op, 1
        weights = list(op.operands) if self._by_weights else []
        known = self._beginnings.setdefault(op.words, [])
        agreeing = [
            sum(a == b for a, b in zip(each, weights, strict=False))
            for each, _ in known
        ]
        most = max(agreeing, default=-1)
        is_other = len(weights) > 1 and most == 0 and len(known) < _MOST_BEGINNINGS
        if most < 0 or is_other:
            node = Node()
            known.append((weights, node))
        else:
            index = agreeing.index(most)
            node = known[index][1]
            known[index] = weights, node
        node.walks += 1
        self._node = node
        path: list[Key] = []
        while (
            node.walks >= _READY
            and len(path) < _LONGEST
            and (key := node.usual()) is not None
        ):
            path.append(key)
            node = node.next[key]
        if path and self._node.walks > _READY:
            self._path, self._passes = path, [op.in_pass]

    def _go_on(self, op: Op) -> None:
        node = self._node
        assert node is not None
        key = op.words, tuple(self._values.get(each, "given") for each in op.operands)
        if self._path is not None:
            if self._path[len(self._passes) - 1] == key:
                self._passes.append(op.in_pass)
            else:  # it is left
                self._path = None
        elif self._length >= _LONGEST or (
            key not in node.next
            and node.walks > _READY
            and node.usual() is None
            and len(node.next) > 1
        ):
            self._begin(op)  # a junction
            return
        self._node = node.next.setdefault(key, Node())
        self._node.walks += 1
        self._length += 1


def share(path: pathlib.Path, *, passes_told: bool, by_weights: bool) -> float:
    """Return the share of ops that is followed in the second half of the passes."""
    graph, ops, last = FlowGraph(by_weights=by_weights), list(read(path)), -1
    for op in ops:
        if op.is_cut or (passes_told and op.in_pass != last):
            graph.end()
        last = op.in_pass
        if not op.is_cut:
            graph.walk(op)
    graph.end()
    half = len({op.in_pass for op in ops}) // 2
    counted = [op for op in ops if op.in_pass >= half]
    followed = sum(n for each, n in graph.followed.items() if each >= half)
    return followed / max(1, len(counted))


def main() -> None:
    """Print the share of each stream."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("streams", nargs="+", type=pathlib.Path)
    parser.add_argument("--passes-told", action="store_true")
    parser.add_argument("--by-words", action="store_true")
    arguments = parser.parse_args()
    shares = []
    for stream in arguments.streams:
        found = share(
            stream,
            passes_told=arguments.passes_told,
            by_weights=not arguments.by_words,
        )
        shares.append(found)
        print(f"{stream.stem:26s} {found:.3f}", flush=True)
    print(f"{'mean':26s} {sum(shares) / len(shares):.3f}")


if __name__ == "__main__":
    main()
