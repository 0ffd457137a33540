"""Functions that regions run in each call, between pieces that are replayed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from torch.nn import functional
from watching import assert_same_bits

WIDTH = 16
CALLS = 40


class Metadata:
    """What a server sets before each step: Python's, and another one each time."""

    length = 1
    calls = 0


META = Metadata()


@reprise.eager
def attend(q: torch.Tensor, k: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
    """Reads a number of the device's, and what Python holds."""
    META.calls += 1
    n = META.length
    if (q.sum() > 0).item():
        scale = -scale
    return (q[:, :n] @ k[:, :n].t()).softmax(-1).mul(scale)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.ModuleList(nn.Linear(WIDTH, w) for w in (12, 20, 24, 28))
        self.between = nn.ModuleList(nn.Linear(w, WIDTH) for w in (12, 20, 24, 28))
        self.register_buffer("cache", torch.zeros(8, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for inner, outer in zip(self.before, self.between, strict=True):
            x = outer(functional.gelu(inner(x))) + x
            x = attend(x, self.cache, scale=0.5) @ self.cache + x.tanh()
        return x


def beside(
    plain: Callable[..., Any],
    fast: Any,
    device: str,
    session: reprise.Session,
    make: Callable[[int], tuple[Any, ...]],
    calls: int = CALLS,
) -> None:
    """Results and what Python counts are eager's."""
    for call in range(calls):
        META.length = 1 + call % 7
        arguments = make(call)
        before = META.calls
        with reprise.session(device, enabled=False):
            expected = plain(*arguments)
        times = META.calls - before
        found = fast(*arguments)
        assert META.calls - before == 2 * times, call
        assert_same_bits(found, expected, f"call {call}")
        session.wait(60)


def test_a_module_round_a_function(device: str) -> None:
    net = Layers().to(device).eval()
    net.cache.normal_()
    fast: Any = reprise.region(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside(
            net,
            fast,
            device,
            session,
            lambda _: (torch.randn(4, WIDTH, device=device),),
        )
        stats = session.stats()
    report = fast.explain()
    assert report.replayed > CALLS - 8, str(report)
    assert stats.unshown > 0, str(session.explain())


def test_a_function_that_calls_another(device: str) -> None:
    inner = reprise.eager(lambda a: a * META.length)
    outer = reprise.eager(lambda a, b: inner(a) + inner(b))
    fast: Any = reprise.region(lambda x: outer(x + 1, x) * 3)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        beside(
            lambda x: ((x + 1) * META.length + x * META.length) * 3,
            fast,
            device,
            session,
            lambda _: (torch.randn(4, device=device),),
            calls=8,
        )
    assert fast.explain().replayed >= 4, str(fast.explain())


def test_other_forms_are_other_variants(device: str) -> None:
    net = Layers().to(device).eval()
    fast: Any = reprise.region(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        beside(
            net,
            fast,
            device,
            session,
            lambda call: (torch.randn(2 + call % 3, WIDTH, device=device),),
        )
    assert fast.explain().replayed > CALLS // 2
    assert fast.explain().variants == 3


def test_it_writes_arguments_and_gives_several(device: str) -> None:
    """A cache that is written where Python says, as serving engines do."""
    place = {"at": 0}

    @reprise.eager
    def store(cache: torch.Tensor, x: torch.Tensor) -> dict[str, Any]:
        cache[place["at"]].copy_(x[0])
        return {"all": cache, "new": [x * 2, None], "n": 3}

    def make() -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
        cache = torch.zeros(4, WIDTH, device=device)

        def step(x: torch.Tensor) -> Any:
            found = store(cache, x + 1)
            return found["all"].sum() + found["n"], found["new"][0] - 1

        return cache, step

    (ours, fn), (theirs, plain) = make(), make()
    fast: Any = reprise.region(fn)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        for call in range(CALLS):
            place["at"] = call % 4
            x = torch.randn(4, WIDTH, device=device)
            assert_same_bits(fast(x), plain(x), f"call {call}")
            assert_same_bits(ours, theirs)
            assert ours._version == theirs._version
            session.wait(60)
    assert fast.explain().replayed > CALLS - 8, str(fast.explain())


class Holder:
    """A method, which changes its object."""

    def __init__(self, device: str) -> None:
        self.weight = torch.randn(WIDTH, device=device)
        self.state = Metadata()

    @reprise.eager
    def count(self, x: torch.Tensor) -> torch.Tensor:
        self.state.calls += 1
        return x * self.state.calls

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self.count(x + self.weight).relu() - self.weight


def test_methods(device: str) -> None:
    holders = [Holder(device) for _ in range(2)]
    for each in holders:
        each.weight.fill_(0.5)
    fast: Any = reprise.region(holders[0].step)
    with torch.no_grad():
        for call in range(CALLS):
            x = torch.randn(4, WIDTH, device=device)
            assert_same_bits(fast(x), holders[1].step(x), f"call {call}")
    assert holders[0].state.calls == CALLS
    assert fast.explain().replayed > CALLS - 8, str(fast.explain())


def test_errors_and_another_form(device: str) -> None:
    what: dict[str, Any] = {"rows": 4, "fails": False}

    @reprise.eager
    def piece(x: torch.Tensor) -> torch.Tensor:
        if what["fails"]:
            raise KeyError("the program's own")
        return x[: what["rows"]] * 2

    fast: Any = reprise.region(lambda x: piece(x + 1) - 1)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for _ in range(8):
            assert_same_bits(fast(x), (x + 1) * 2 - 1)
        assert fast.explain().replayed > 0
        what["fails"] = True
        with pytest.raises(KeyError, match="own"):
            fast(x)
        what["fails"] = False
        assert_same_bits(fast(x), (x + 1) * 2 - 1)
        what["rows"] = 3
        with pytest.raises(RuntimeError, match="piece, which regions run in each call"):
            fast(x)
        assert_same_bits(fast(x), (x[:3] + 1) * 2 - 1)  # from now on it runs
        assert "piece, which regions run" in str(fast.explain())


@pytest.mark.parametrize(
    ("gives", "reason"),
    [
        (lambda x: x.view(-1), "a part of a tensor"),
        (lambda x: [x * 2, iter(())], "it returns a builtins.tuple_iterator"),
    ],
)
def test_what_it_may_not_return(device: str, gives: Any, reason: str) -> None:
    piece = reprise.eager(gives)

    def fn(x: torch.Tensor) -> torch.Tensor:
        found: Any = piece(x + 1)
        return (found if isinstance(found, torch.Tensor) else found[0]) - 1

    fast: Any = reprise.region(fn)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for _ in range(8):
            assert_same_bits(fast(x), fn(x))
    assert fast.explain().replayed == 0
    assert reason in str(fast.explain())


def declines(fn: Any, plain: Any, arguments: Callable[[], Any], reason: str) -> None:
    """The callable runs in each call, and the report says why."""
    fast: Any = reprise.region(fn)
    for call in range(10):
        torch.manual_seed(call)
        given = arguments()
        torch.manual_seed(call)
        found = fast(*given)
        torch.manual_seed(call)
        assert_same_bits(found, plain(*given), f"call {call}")
    assert fast.explain().replayed == 0, str(fast.explain())
    assert reason in str(fast.explain()), str(fast.explain())


def test_gradients(device: str) -> None:
    """What it reads is looked at by nobody, so it is no part of a region."""
    state = {"scale": 1.0}
    scaled = reprise.eager(lambda x: x * state["scale"])
    layer = nn.Linear(WIDTH, WIDTH).to(device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return layer(scaled(layer(x))).sum()

    def plain(x: torch.Tensor) -> torch.Tensor:
        return layer(layer(x) * state["scale"]).sum()

    def make() -> tuple[torch.Tensor]:
        state["scale"] += 1
        return (torch.randn(4, WIDTH, device=device),)

    declines(fn, plain, make, "gradients are tracked")


@pytest.mark.parametrize("how", ["clip", "step", "zero"])
def test_steps_that_look_at_gradients(device: str, how: str) -> None:
    def make() -> tuple[nn.Module, Callable[[torch.Tensor], torch.Tensor]]:
        torch.manual_seed(0)
        net = nn.Linear(WIDTH, WIDTH).to(device)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        clip = reprise.eager(
            lambda: torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        )
        does = {
            "step": reprise.eager(lambda: opt.step()),
            "zero": reprise.eager(lambda: opt.zero_grad()),
        }

        def step(x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                does["zero"]() if how == "zero" else opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            with torch.no_grad():
                if how == "clip":
                    clip()
                does["step"]() if how == "step" else opt.step()
            return loss.detach()

        return net, step

    (ours, fn), (theirs, plain) = make(), make()
    fast: Any = reprise.region(fn)
    for call in range(10):
        x = torch.randn(4, WIDTH, device=device)
        assert_same_bits(fast(x), plain(x), f"call {call}")
        assert_same_bits(list(ours.parameters()), list(theirs.parameters()))
    assert "cannot run in each call" in str(fast.explain()) or (
        "where gradients are made" in str(fast.explain())
    ), str(fast.explain())


class Cache:
    def __init__(self, device: str) -> None:
        self.all = torch.randn(6, WIDTH, device=device)
        self.kept = [torch.randn(4, WIDTH, device=device)]
        self.at = 0


@pytest.mark.parametrize("which", ["row", "whole", "list", "twice", "history"])
def test_results_are_new_and_its_own(device: str, which: str) -> None:
    cache = Cache(device)
    layer = nn.Linear(WIDTH, WIDTH).to(device)

    def give(x: torch.Tensor) -> Any:
        cache.at = (cache.at + 1) % 6
        if which == "row":
            return cache.all[cache.at]
        if which == "whole":
            return cache.all
        if which == "list":
            return cache.kept
        if which == "twice":
            y = x + cache.at
            return y, y
        with torch.enable_grad():
            return layer(x)

    piece = reprise.eager(give)

    def first(found: Any) -> torch.Tensor:
        return found if isinstance(found, torch.Tensor) else found[0]

    def fn(x: torch.Tensor) -> torch.Tensor:
        return first(piece(x * 2)).mul(3) + 1

    def plain(x: torch.Tensor) -> torch.Tensor:
        cache.at -= 1
        return first(give(x * 2)).mul(3) + 1

    with torch.no_grad():
        make = lambda: (torch.randn(4, WIDTH, device=device),)  # noqa: E731
        declines(fn, plain, make, "cannot run in each call")


def test_a_result_that_is_kept_later(device: str) -> None:
    """It was new when the region was recorded."""
    kept: list[torch.Tensor] = []

    @reprise.eager
    def piece(x: torch.Tensor) -> torch.Tensor:
        if kept:
            return kept[0]
        return x * 2

    fast: Any = reprise.region(lambda x: piece(x) + 1)
    x = torch.randn(4, device=device)
    with torch.no_grad():
        for _ in range(6):
            fast(x)
        assert fast.explain().replayed > 0
        kept.append(torch.randn(4, device=device))
        with pytest.raises(RuntimeError, match="keeps what it returns"):
            fast(x)
        for _ in range(3):
            assert_same_bits(fast(x), kept[0] + 1)


def test_arguments_that_it_changes_later(device: str) -> None:
    state = {"value": 0}

    @reprise.eager
    def piece(given: dict[str, Any]) -> torch.Tensor:
        given["n"] = state["value"]
        found: torch.Tensor = given["x"] * 2
        return found

    def fn(x: torch.Tensor) -> torch.Tensor:
        given = {"x": x + 1, "n": 0}
        return piece(given) + given["n"]

    fast: Any = reprise.region(fn)
    x = torch.randn(4, device=device)
    with torch.no_grad():
        for _ in range(6):
            assert_same_bits(fast(x), (x + 1) * 2)
        assert fast.explain().replayed > 0
        state["value"] = 1
        with pytest.raises(RuntimeError, match="changes its arguments"):
            fast(x)
        assert_same_bits(fast(x), (x + 1) * 2 + 1)


def test_modes_within_the_region(device: str) -> None:
    product = reprise.eager(lambda a, b: (a @ b).float())

    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16):
            return product(a, b) + 1

    def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16):
            return (a @ b).float() + 1

    make = lambda: tuple(  # noqa: E731
        torch.randn(WIDTH, WIDTH, device=device) for _ in range(2)
    )
    with torch.no_grad():
        declines(fn, plain, make, "modes of torch's")

        def changes(a: torch.Tensor) -> torch.Tensor:
            torch.set_grad_enabled(True)
            return a * 2

        changing = reprise.eager(changes)

        def leaves(a: torch.Tensor) -> torch.Tensor:
            found = changing(a)
            torch.set_grad_enabled(False)
            return found + 1

        declines(leaves, lambda a: a * 2 + 1, lambda: make()[:1], "changes modes")


class Request:
    def __init__(self, device: str) -> None:
        self.tokens = torch.zeros(4, device=device)
        self.count = 0

    @reprise.eager
    def append(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.tokens + self.count


def test_methods_of_arguments(device: str) -> None:
    requests = [Request(device) for _ in range(2)]
    counts = [Request(device) for _ in range(2)]
    turn = itertools.count()

    def plain(x: torch.Tensor, request: Request) -> torch.Tensor:
        of = counts[requests.index(request)]
        of.count += 1
        return x + of.tokens + of.count

    declines(
        lambda x, request: request.append(x),
        plain,
        lambda: (torch.randn(4, device=device), requests[next(turn) // 4 % 2]),
        "",
    )
    assert [each.count for each in requests] == [each.count for each in counts]


def test_arguments_that_it_changes(device: str) -> None:
    numbers = {"next": 0}

    def grows(x: torch.Tensor, into: list[int]) -> torch.Tensor:
        numbers["next"] += 1
        into.append(numbers["next"])
        return x * 2

    piece = reprise.eager(grows)

    def fn(x: torch.Tensor) -> torch.Tensor:
        into: list[int] = []
        y = piece(x, into)
        return y * into[0]

    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * 2 * numbers["next"]

    with torch.no_grad():
        make = lambda: (torch.randn(4, device=device),)  # noqa: E731
        declines(fn, plain, make, "changes its arguments")


def test_regions_within_and_samples(device: str) -> None:
    """It may call another region; and each recorded call runs it once."""
    inner: Any = reprise.region(lambda x: (x * 3).relu().sum(-1))
    calls = []

    @reprise.eager
    def piece(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(calls))
        found: torch.Tensor = inner(x) + len(calls) % 2
        return found

    fast: Any = reprise.region(lambda x: piece(x + 1) * 2, check="always")
    sampled: Any = reprise.region(lambda x: piece(x + 1) * 2)
    with torch.no_grad():
        for number in range(CALLS):
            x = torch.randn(4, WIDTH, device=device)
            for of in (fast, sampled):
                before = len(calls)
                found = of(x)
                assert len(calls) == before + 1
                expected = (((x + 1) * 3).relu().sum(-1) + len(calls) % 2) * 2
                assert_same_bits(found, expected, f"call {number}")
    assert fast.explain().samples > 0
    assert sampled.explain().replayed > 0
    assert inner.explain().replayed > 0


def test_reports_name_it(device: str) -> None:
    written = torch.zeros(4, device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        written.add_(1)
        return x * x.sum().item()

    fast: Any = reprise.region(fn)
    x = torch.randn(4, device=device)
    for _ in range(6):
        assert_same_bits(fast(x), x * x.sum().item())
    assert "by @reprise.eager" in str(fast.explain())


def test_functions_of_torchscript_stand_in_one(device: str) -> None:
    """They may be fused, so that no operator is seen.

    Torch's own tests, where they are imported, call them by functions of Python.
    """
    with pytest.warns((DeprecationWarning, FutureWarning)):  # by version
        scripted: Any = torch.jit.script(_scaled)
    plain: Any = reprise.region(lambda x: scripted(x + 1) - 1)
    split: Any = reprise.region(lambda x: wrapped(x + 1) - 1)
    wrapped = reprise.eager(lambda x: scripted(x))
    x = torch.randn(4, device=device)
    with torch.no_grad():
        for _ in range(8):
            assert_same_bits(plain(x), _scaled(x + 1) - 1)
            assert_same_bits(split(x), _scaled(x + 1) - 1)
    assert plain.explain().replayed == 0
    assert re.search("TorchScript|launches kernels", str(plain.explain()))
    assert split.explain().replayed > 0


def _scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + x


def test_outside_of_regions_it_is_the_function(device: str) -> None:
    x = torch.randn(4, WIDTH, device=device)
    assert_same_bits(attend(x, x), attend.__wrapped__(x, x))  # type: ignore[attr-defined]
    assert attend.__name__ == "attend"
    with pytest.raises(TypeError, match="give a callable"):
        reprise.eager(3)  # type: ignore[arg-type]
