"""Runs a program under Reprise and by eager alone, and says what differs."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import zlib
from typing import Any

import reprise
import torch

from programs.program import Compiled, Sight, State

Counts = collections.Counter
EAGER_RUNS = 4  # more, before a difference counts: a race shows now and then


class ProgramError(Exception):
    """The program fails without Reprise, too."""


@dataclasses.dataclass
class Outcome:
    """What one check found."""

    wrong: list[str]  #: a sentence for each difference
    counts: Counts  #: of the run under Reprise


@functools.cache
def _streams(device: str) -> list[Any]:
    """A side stream, and one for programs that are not on the default stream."""
    if device != "cuda":
        return []
    return [torch.cuda.Stream(), torch.cuda.Stream()]


def _walk(program: Compiled, state: State) -> None:
    for step in program.setup:
        step(state)
    state.begin()
    for number, steps in enumerate(program.passes):
        state.begin_pass(number)
        for step in steps:
            step(state)
        if program.steady:
            state.wait()


def _run(
    program: Compiled, device: str, session: reprise.Session | None
) -> tuple[State, str]:
    """The state at the end, and the error that ended it before, if one did."""
    torch.manual_seed(program.seed)
    state = State(device, session)
    streams = _streams(device)
    options = {"policy": "always", **program.options}
    state.serve(streams[:1], lambda: reprise.enable(device, **options))
    on: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if streams and program.own_stream:
        on = torch.cuda.stream(streams[1])
    error = ""
    with torch.no_grad(), on:
        try:
            _walk(program, state)
        except Exception as raised:  # whatever it is, eager's must be the same
            error = f"{type(raised).__name__}: {raised}"
        state.end_hazards()
        state.join()
        state.meet()
    return state, error


def _finish(state: State) -> None:
    """The last look, without a session."""
    state.synchronize()
    with torch.no_grad():
        state.look()
    state.sights[-1].where = "at the end"
    if state.device == "cuda":
        state.say(torch.cuda.get_rng_state().tolist())
    state.say(torch.get_rng_state().tolist())
    state.say([zlib.crc32(one.numpy().tobytes()) for one in state.generators])
    state.synchronize()


def _any_bit_differs(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> bool:
    """Of tensors of equal shapes; one wait for all that are on a device."""
    flags: dict[str, list[torch.Tensor]] = {}
    for one, other in pairs:
        flag = (one.view(torch.uint8) != other.view(torch.uint8)).any()
        flags.setdefault(one.device.type, []).append(flag)
    return any(bool(torch.stack(some).any()) for some in flags.values())


def _wrong_tensors(found: Sight, plain: Sight) -> list[str]:
    """Each tensor of a look that differs."""
    if found.names != plain.names:
        return [f"{found.where}: other tensors are alive, or of another layout"]
    wrong = []
    for names, one, other in zip(found.names, found.flat, plain.flat, strict=True):
        at = 0
        size = one.element_size()
        bits = (one.view(torch.uint8) != other.view(torch.uint8)).cpu()
        for name, elements, *_ in names:
            count = int(bits[at * size : (at + elements) * size].sum())
            if count > 0:
                wrong.append(
                    f"{found.where}: {name}, {count} bytes of {elements * size}"
                )
            at += elements
    return wrong


def _differences(found: State, plain: State) -> list[str]:
    wrong = []
    if found.said != plain.said:
        pairs = zip(found.said, plain.said, strict=False)
        told = [f"{a[:60]}, not {b[:60]}" for a, b in pairs if a != b]
        wrong.append(f"the host was told {(told or ['other things'])[0]}")
    sights = list(zip(found.sights, plain.sights, strict=False))
    if len(found.sights) != len(plain.sights):
        wrong.append("it ended elsewhere")
    pairs = [
        pair
        for one, other in sights
        if one.names == other.names
        for pair in zip(one.flat, other.flat, strict=True)
    ]
    alike = all(one.names == other.names for one, other in sights)
    if alike and not _any_bit_differs(pairs):
        return wrong
    return wrong + [line for pair in sights for line in _wrong_tensors(*pair)]


def _count(state: State, report: dict[str, Any], program: Compiled) -> Counts:
    counts: Counts = Counts(programs=1, passes=len(program.passes))
    for stats in state.counts():
        counts.update(dataclasses.asdict(stats))
    for cut in report.get("cuts", []):
        # Of a build's, each names a launch and addresses.
        of_build = cut["reason"].startswith("op ")
        reason = "an op that could not be built" if of_build else cut["reason"]
        counts[f"cut: {reason}"] += cut["count"]
    plans = report.get("plans", [])
    counts["several instances"] = sum(len(plan["instances"]) > 1 for plan in plans)
    counts["looks"] = len(state.sights)
    counts.update({f"step: {step}": count for step, count in state.steps.items()})
    policy = program.options.get("policy", "always")
    counts[f"replays under {policy}"] += counts["replays"]
    if not state.waited:
        counts["programs that wait for no build"] += 1
        counts["replays of builds not waited for"] += counts["replays"]
    return counts


def _is_finite(state: State) -> bool:
    """What is not finite hides what is wrong."""
    floats = [flat for flat in state.sights[-1].flat if flat.is_floating_point()]
    return all(bool(torch.isfinite(flat).all()) for flat in floats)


def check(program: Compiled, device: str) -> Outcome:
    """Every live tensor's bits at every look and at the end, and what the host was told.

    Raises ProgramError where eager alone raises, or does not repeat itself.
    """
    plain, error = _run(program, device, None)
    if error:
        raise ProgramError(error)
    _finish(plain)
    options = {"policy": "always", **program.options}
    with reprise.session(device, **options) as session:
        session.reset()
        found, error = _run(program, device, session)
        counts = _count(found, session.explain().to_dict(), program)
    again = "addresses taken again"  # by eager: nothing asks for them under Reprise
    counts[again] = plain.steps[again]
    outcome = Outcome([], counts)
    if error:
        # A device that is lost raises again, here.
        found.synchronize()
        outcome.wrong.append(f"in pass {found.number} it raised {error}")
    _finish(found)
    counts["programs that stayed finite"] = int(_is_finite(plain))
    outcome.wrong += _differences(found, plain)
    for _ in range(EAGER_RUNS if outcome.wrong else 0):
        repeated, error = _run(program, device, None)
        _finish(repeated)
        if error or _differences(repeated, plain):
            raise ProgramError("eager does not repeat itself")
    return outcome
