"""A call among ordinary ops under Reprise, against eager, until it is replayed or cut."""

from __future__ import annotations

import functools
from typing import Any

import reprise
import torch
from reprise import _native

from registry import known
from registry.effects import generator_state, seed_generators
from registry.hooks import Call, hooks
from registry.memory import (
    Copier,
    content,
    is_plain,
    look,
    replaced,
    sharing,
    storage_bytes,
    walk,
)

PASSES = 60  # until then every call is replayed, or cut, or will never be
CUT_PASSES = 4  # a call that is cut is looked at this often
BUILD_TIMEOUT_S = 60.0
NOTHING = {
    "verdict": "lost",
    "replays": 0,
    "reasons": [],
    "others": [],
    "states": [],
    "seen": 0,
    "inputs": 0,
}


def inputs_of(call: Call) -> list[Call]:
    """The call, and one of other data of the same form that eager accepts too."""
    changes = (_scaled,) if call.name in known.ORDERED else (_mirrored, _scaled)
    for change in changes:
        try:
            copy = Copier()
            other = Call(
                call.name,
                replaced(call.args, lambda t, c=copy, f=change: f(c(t))),
                replaced(call.kwargs, lambda t, c=copy, f=change: f(c(t))),
                call.source,
            )
            with torch.no_grad():
                other.copy().run()
        except Exception:
            continue
        return [call, other]
    return [call]


def _distinct(tensor: torch.Tensor) -> bool:
    return not any(
        size > 1 and stride == 0
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def _mirrored(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements in the opposite order: indices stay in range."""
    if tensor.numel() > 1 and _distinct(tensor):
        tensor.copy_(tensor.flatten().flip(0).reshape(tensor.shape))
    return tensor


def _scaled(tensor: torch.Tensor) -> torch.Tensor:
    """Floats a little smaller, and as well conditioned."""
    if (tensor.is_floating_point() or tensor.is_complex()) and _distinct(tensor):
        tensor.copy_(tensor * 0.9375)
    return tensor


Written = tuple[dict[int, torch.Tensor], dict[int, int]]


class Program:
    """The call with ordinary ops around it; ends in a cut, so that it is one trace."""

    def __init__(self, call: Call, device: str, repeats: bool) -> None:
        self._repeats = repeats
        self._written = sorted(hooks()[call.name].writes(call))
        self._weight = torch.linspace(-2, 2, 24, device=device)

    def prepare(self, call: Call) -> Written:
        """The memory that the call writes: bytes of storages, and whose they are.

        Asking a tensor for its storage would be a cut, so it is not done on the way.
        """
        arguments = call.arguments()
        flats: dict[int, torch.Tensor] = {}
        owner: dict[int, int] = {}
        for tensor in (t for i in self._written for t in walk(arguments[i])):
            if tensor.is_conj() or tensor.is_neg():
                continue
            owner[id(tensor)] = tensor.untyped_storage()._cdata
            flats.setdefault(owner[id(tensor)], storage_bytes(tensor))
        return flats, owner

    def __call__(self, call: Call, memory: Written) -> tuple[Any, ...]:
        flats, owner = memory
        head = self._weight * 1.5
        side = torch.relu(head)
        # An op may only write to what its trace has made.
        made = {key: flat.clone() for key, flat in flats.items()}

        def inside(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in owner:
                return tensor
            return _over(made[owner[id(tensor)]], tensor)

        arguments = call.arguments()
        for i in self._written:
            arguments[i] = replaced(arguments[i], inside)
        result = call.with_arguments(arguments).run()
        after = [
            t.clone()
            for t in walk(result)
            if self._repeats and is_plain(t) and t.device == head.device
        ]
        side = side + head
        side.sum().item()
        return result, [arguments[i] for i in self._written], after, side


def _over(memory: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`like`'s view, in `memory`; by views alone."""
    typed = memory.view(like.dtype)
    return typed.as_strided(like.shape, like.stride(), like.storage_offset())


def replay(call: Call, device: str, repeats: bool) -> dict[str, Any]:
    """Repeat the call until it is replayed or its cut is named; compare every pass.

    `verdict`: "replayed", "cut", "not watched" or "lost"; `reasons`: of cuts and
    rejections; `differs`: what was not as eager has it, "" where nothing. Results of
    calls whose eager results do not repeat are compared by layout alone.
    """
    inputs = inputs_of(call)
    program = Program(call, device, repeats)
    runs = functools.partial(_run, program, device, repeats)
    expected = [runs(value, seed) for seed, value in enumerate(inputs)]
    found: dict[str, Any] = {"differs": "", "inputs": len(inputs)}
    with reprise.session(device, policy="always") as session:
        runtime = _native.active()
        session.reset()
        found["seen"] = _seen(call, session, runtime)
        session.reset()
        for number in range(PASSES):
            which = number % len(inputs)
            mine = runs(inputs[which], which, runtime)
            for place, left, right in zip(
                ("results", "written", "after", "around", "sharing", "generator"),
                mine,
                expected[which],
                strict=True,
            ):
                if left != right and not found["differs"]:
                    found["differs"] = f"{place} of pass {number}"
            session.wait(BUILD_TIMEOUT_S)
            if number + 1 >= CUT_PASSES:
                found.update(_verdict(session.explain().to_dict(), call.name))
                if found["verdict"] == "cut" or found["replays"] >= 2:
                    break
        session.reset()
    return found


def _seen(call: Call, session: reprise.Session, runtime: int | None) -> int:
    """How many ops one call is to the session: the outermost, or none."""
    _native.activate(None)
    mine = call.copy()
    before = session.stats()
    _native.activate(runtime)
    with torch.no_grad():
        mine.run()
    _native.activate(None)
    return session.stats().since(before).ops


def _run(
    program: Program,
    device: str,
    repeats: bool,
    call: Call,
    seed: int,
    runtime: int | None = None,
) -> tuple[Any, ...]:
    """One pass; what it did, by bits. Looks while Reprise is not watching."""
    _native.activate(None)
    mine = call.copy()
    memory = program.prepare(mine)
    seed_generators(device, seed)
    _native.activate(runtime)
    with torch.no_grad():
        values = program(mine, memory)
    _native.activate(None)
    result, written, after, around = values
    given = [*walk((mine.args, mine.kwargs))]
    arguments = [content(storage_bytes(t)) for t in given]
    return (
        look(result, repeats),
        (look(written, repeats), arguments),
        look(after, repeats),
        look(around),
        sharing((values, given)),
        generator_state(device),
    )


def _verdict(report: dict[str, Any], name: str) -> dict[str, Any]:
    plans = [plan for plan in report["plans"] if name in plan["operators"]]
    replays = sum(plan["replays"] for plan in plans)
    cuts = sorted({row["reason"] for row in report["cuts"] if row["op"] == name})
    rejections = sorted({row["reason"] for row in report["rejections"]})
    others = sorted(
        {
            f"{row['op']}: {row['reason']}"
            for row in report["cuts"]
            if row["op"] not in (name, "aten::_local_scalar_dense")
        }
    )
    if replays:
        verdict = "replayed"
    elif cuts:
        verdict = "cut"
    elif plans or rejections:  # what is given up is not recorded any more
        verdict = "lost"
    else:
        verdict = "not watched"
    return {
        "verdict": verdict,
        "replays": replays,
        "reasons": cuts + rejections,
        "others": others,
        "states": [plan["state"] for plan in plans] + report["notes"],
    }
