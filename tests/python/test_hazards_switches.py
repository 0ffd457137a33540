"""Ops that run ahead obey the switches of their own place, not of the op that launches them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import hazards
import pytest
import torch
import torch.nn.functional as F
from hazards import flushed_denormals, restored, same_as_eager
from registry import flags
from registry.hooks import Call

PASSES = 60
SINCE = 30  # the pass from which on the data tells switches apart
LONG = 200_000  # elements that several threads share


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    with restored(torch.get_num_threads, torch.set_num_threads):
        torch.set_num_threads(count)
        yield


@pytest.mark.parametrize("outside", [False, True])
def test_denormals_that_count_as_nothing_for_some_ops(outside: bool) -> None:
    """For ops in the midst of a trace, or for all but those."""
    inputs = [torch.full((64,), 1e-39 if i >= SINCE else 1.0) for i in range(PASSES)]

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        w, seen = torch.ones(64), []
        for x in inputs:
            with flushed_denormals() if outside else contextlib.nullcontext():
                b = x * w * 1
                torch.set_flush_denormal(not outside)
                d = b * 0.5
                e = d + d
                torch.set_flush_denormal(outside)
                seen.append(e + 0)
                seen.append(b * 0.25)
            tick()
        return seen

    stats, _ = same_as_eager("cpu", run)
    assert stats.followed > 0.6 * stats.ops


def test_the_number_of_threads_of_some_ops() -> None:
    """A sum depends on it."""
    generator = torch.Generator().manual_seed(2)
    inputs = [torch.zeros(LONG) for _ in range(SINCE)]
    inputs += [torch.randn(LONG, generator=generator) for _ in range(PASSES - SINCE)]

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        w, seen = torch.ones(LONG), []
        for x in inputs:
            b = x * w * 1.0
            with _threads(4):
                s = b.sum()
                c = b * 3.0
            seen.append(s + 0)
            seen.append(c[:64] + 1)
            tick()
        return seen

    stats, _ = same_as_eager("cpu", run)
    assert stats.followed > 0.6 * stats.ops


@pytest.mark.parametrize("late", [False, True])
def test_a_flag_that_chooses_a_kernel(late: bool) -> None:
    """oneDNN's kernel of `gelu`, for that op alone, always or from a late pass on."""

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        w, seen = torch.linspace(-3, 3, 64), []
        for number in range(PASSES):
            b = w * 1.5 + 1
            with torch.backends.mkldnn.flags(enabled=late and number < SINCE):
                y = F.gelu(b)
            seen.append(y * 2)
            tick()
        return seen

    stats, _ = same_as_eager("cpu", run)
    assert stats.followed > 0.4 * stats.ops


# --- What finds flags that no word tells of -------------------------------------------


def _call(name: str, *args: object) -> Call:
    return Call(name, args, {}, "test")


def test_flags_by_which_operators_go_are_found() -> None:
    """And programs that switch them are as eager's (registry/flags.py)."""
    x = torch.linspace(-3, 3, 64)
    of_host = {flag.name: flag for flag in flags.flags("cpu")}
    tiny = _call("aten::mul.Tensor", torch.full((8,), 1e-39), torch.full((8,), 0.5))
    calls = {
        "mkldnn_enabled": _call("aten::gelu", x),
        "denormals": tiny,
        "default dtype": _call("aten::arange", 5.0),
    }
    for name, call in calls.items():
        assert flags.goes_by(call, of_host[name], "cpu"), name
        assert flags.wrong(call, of_host[name], "cpu") == [], name
    assert not flags.goes_by(_call("aten::neg", x), of_host["denormals"], "cpu")


def test_a_flag_that_no_word_tells_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a flag that this test has made up."""
    made = {"on": False}
    flag = flags.Flag(
        "made up", lambda: made["on"], lambda on: made.update(on=on), (False, True)
    )
    call = _call("aten::neg", torch.linspace(-3, 3, 64))
    kernel = Call.run
    values: list[bool] = []

    def run(self: Call) -> object:
        result = kernel(self)
        values.append(made["on"])
        # Past all hooks, as a kernel that goes by it would.
        if made["on"] and isinstance(result, torch.Tensor):
            result.numpy()[0] += 1
        return result

    monkeypatch.setattr(Call, "run", run)
    assert flags.goes_by(call, flag, "cpu")
    assert set(values) == {False, True}


def test_a_choice_that_goes_by_what_requires_gradients() -> None:
    """Of attention on the host, a mask that requires them rules the fast kernel out."""

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(4)
        weight, mask, seen = torch.randn(8, 8), torch.zeros(4, 4), []
        for number in range(PASSES):
            asked = mask.requires_grad_(number >= SINCE and number % 2 == 0)
            scaled = (torch.randn(1, 2, 4, 8) @ weight + 1) * 2
            choice = torch._fused_sdp_choice(scaled, scaled, scaled, attn_mask=asked)
            seen.append(scaled.tanh() * choice)
            tick()
        return seen

    same_as_eager("cpu", run)
