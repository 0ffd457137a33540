"""Runs a case by eager and under Reprise, and says what differs."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import warnings
from typing import Any

import reprise
import torch
from registry.effects import fill_free_memory, generator_state
from registry.memory import is_plain, look, sharing, walk
from reprise import _native
from torch.utils._python_dispatch import TorchDispatchMode

from databases.cases import Case, Skipped, seed_everything

BUILD_TIMEOUT_S = 120.0
KEPT_PASSES = 2  # whose results live on, and are looked at once more
# What free memory holds in eager's other runs, before a difference counts.
EAGER_PATTERNS = (0x3C, 0x00, 0x7F, 0xFF)

ASIDE = ("_version", "warnings")  # said where nothing else differs

Look = dict[str, Any]


@dataclasses.dataclass
class Finding:
    """What one case was found to be: `wrong`, `skipped` or right."""

    wrong: str = ""  #: the first difference
    skipped: str = ""  #: why nothing was compared
    ops: int = 0  #: the session saw
    followed: int = 0
    replays: int = 0
    late_ops: int = 0  #: of the last three passes
    late_followed: int = 0
    cuts: tuple[str, ...] = ()
    rejections: tuple[str, ...] = ()


def _seen(values: Any, given: Any, told: list[Any], device: str) -> Look:
    """All that is compared of a pass; the session is not watching."""
    seen: Look = dict(values) if isinstance(values, dict) else {"called": values}
    seen = {name: look(value) for name, value in seen.items()}
    tensors = [t for t in walk([values, given]) if is_plain(t)]
    seen["the inputs"] = look(given)
    seen["shared memory"] = sharing((values, given))
    seen["requires_grad"] = [t.requires_grad for t in tensors]
    seen["is_inference"] = [t.is_inference() for t in tensors]
    seen["_version"] = [None if t.is_inference() else t._version for t in tensors]
    seen["warnings"] = [(str(w.message), w.category.__name__) for w in told]
    seen["generators"] = generator_state(device)
    return seen


class _Runner:
    """One run of a case, pass by pass."""

    def __init__(self, case: Case, device: str, runtime: int | None) -> None:
        self._case = case
        self._device = device
        self._runtime = runtime
        seed_everything(device, 1)
        self._run = case.begin()
        self._kept: collections.deque[tuple[Any, Look, int]] = collections.deque()

    def next(self, number: int) -> Look:
        seed_everything(self._device, number)
        given = self._run.prepare(number)
        seed_everything(self._device, 1000 + number)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            _native.activate(self._runtime)
            try:
                values = self._run.work(given)
            finally:
                _native.activate(None)
        seen = _seen(values, given, told, self._device)
        self._kept.append((values, look(values), number))
        if len(self._kept) > KEPT_PASSES:
            self._kept.popleft()
        return seen

    def changed(self) -> str:
        """A kept result that is no longer what it was, or ""."""
        for values, was, number in self._kept:
            if look(values) != was and not self._may_change():
                return f"a result of pass {number} changed behind it"
        return ""

    def _may_change(self) -> bool:
        """Parameters, buffers and states of optimizers are written by later passes."""
        return not self._case.unit.startswith(("op:", "foreach:"))


class _FillsMemory(TorchDispatchMode):
    """Free memory holds a byte of choice before each op."""

    def __init__(self, device: str, pattern: int) -> None:
        super().__init__()
        self._fill = functools.partial(fill_free_memory, device, pattern)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self._fill()
        return func(*args, **(kwargs or {}))


def _eager(
    case: Case, device: str, pattern: int, *, each_op: bool = False
) -> list[Look]:
    """All passes; free memory holds the pattern before each of them, or each op."""
    fill_free_memory(device, pattern)
    runner = _Runner(case, device, None)
    seen = []
    for number in range(case.passes):
        fill_free_memory(device, pattern)
        filled = _FillsMemory(device, pattern) if each_op else contextlib.nullcontext()
        with filled:
            seen.append(runner.next(number))
    return seen


def _first_difference(found: list[Look], expected: list[Look]) -> str:
    """The first pass in which something differs, bits of results before all else."""
    for aside in (False, True):
        for number, (one, other) in enumerate(zip(found, expected, strict=False)):
            for name in other:
                if (name in ASIDE) == aside and one.get(name) != other[name]:
                    return f"{name} in pass {number} differs" + _detail(
                        one.get(name), other[name]
                    )
    return ""


def _detail(one: Any, other: Any) -> str:
    """Of lists whose items can be told; tensors' bytes say nothing to people."""
    if not isinstance(one, list) or not isinstance(other, list):
        return ""
    if any(isinstance(item, list) for item in other):
        return ""
    if len(one) != len(other):
        return f": {len(one)}, not {len(other)}: {str(one or other)[:150]}"
    pairs = [f"{a}, not {b}" for a, b in zip(one, other, strict=True) if a != b]
    return f": {pairs[0][:300]}"


def survived(device: str) -> bool:
    """Whether the device still works; an assertion that fails on a GPU ends its context."""
    try:
        if device == "cuda":
            torch.cuda.synchronize()
    except Exception:
        return False
    return True


def check(case: Case, device: str) -> Finding:
    """Compare each pass with eager's: bits, layouts, gradients, warnings, generators.

    Samples that eager refuses, or for which it does not repeat itself, are skipped.
    """
    try:
        expected = _eager(case, device, 0x5A)
        again = _eager(case, device, 0xC3)
    except Skipped as why:
        return Finding(skipped=str(why))
    except Exception as error:
        return Finding(skipped=f"eager raises {type(error).__name__}")
    if difference := _first_difference(again, expected):
        name = difference.split(" in pass")[0]
        return Finding(skipped=f"eager does not repeat itself ({name})")
    finding = _replayed(case, device, expected)
    if finding.wrong and not _repeats(case, device, expected):
        return Finding(skipped="eager does not repeat itself, now and then")
    return finding


def _repeats(case: Case, device: str, expected: list[Look]) -> bool:
    """Eager, looked at more often: its results are the expected ones, each time.

    Runs in which memory is filled before each op are compared with each other alone: a
    dispatch mode may make torch choose other kernels.
    """
    for each_op, runs in ((False, [expected]), (True, [])):
        for pattern in EAGER_PATTERNS:
            with contextlib.suppress(Exception):  # a mode is not for every operator
                runs.append(_eager(case, device, pattern, each_op=each_op))
        if any(_first_difference(run, runs[0]) for run in runs[1:]):
            return False
    return True


def _replayed(case: Case, device: str, expected: list[Look]) -> Finding:
    finding = Finding()
    with reprise.session(device, policy="always") as session:
        runtime = _native.active()
        _native.activate(None)
        session.reset()
        found: list[Look] = []
        try:
            runner = _Runner(case, device, runtime)
            for number in range(case.passes):
                if number == case.passes - 3:
                    before = session.stats()
                found.append(runner.next(number))
                assert session.wait(BUILD_TIMEOUT_S)
            finding.wrong = _first_difference(found, expected) or runner.changed()
        except Exception as error:
            raised = f"pass {len(found)} raised {type(error).__name__}: {error}"[:400]
            finding.wrong = _first_difference(found, expected) or raised
            if not survived(device):
                return finding
        stats = session.stats()
        finding.ops, finding.followed = stats.ops, stats.followed
        finding.replays = stats.replays
        if len(found) == case.passes:
            late = stats.since(before)
            finding.late_ops, finding.late_followed = late.ops, late.followed
        report = session.explain().to_dict()
        finding.cuts = tuple(
            f"{row['op']}: {row['reason']}"
            for row in report["cuts"]
            if row["op"] != "aten::_local_scalar_dense"
        )
        finding.rejections = tuple(row["reason"] for row in report["rejections"])
        session.reset()
    return finding
