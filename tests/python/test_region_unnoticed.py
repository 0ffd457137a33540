# ruff: noqa: UP031
"""What a callable may read without that anybody notices: it is looked at, or refused."""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import json
import optparse
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn

CALLS = 6
PERCENT = "%.1f"


@pytest.fixture(autouse=True)
def _session(device: str) -> Iterator[None]:
    with reprise.session(device, policy="always"):
        yield


def ones(device: str) -> torch.Tensor:
    return torch.ones(2, device=device)


# --- Objects whose operators read all of their attributes ---


class OfPackage(argparse.Namespace):
    pass


def _namespaces() -> dict[str, tuple[Callable[[Any, torch.Tensor], Any], Any]]:
    other = argparse.Namespace(k=1)
    values = optparse.Values({"k": 1})
    return {
        "in": (lambda of, x: x * (3 if "extra" in of else 2), argparse.Namespace(k=1)),
        "in a subclass": (
            lambda of, x: x * (3 if "extra" in of else 2),
            OfPackage(k=1),
        ),
        "==": (lambda of, x: x * (2 if of == other else 3), argparse.Namespace(k=1)),
        "text": (lambda of, x: x * len(f"{of}"), argparse.Namespace(k=1)),
        "values": (
            lambda of, x: x * (2 if of == values else 3),
            optparse.Values({"k": 1}),
        ),
    }


@pytest.mark.parametrize("name", _namespaces())
def test_attributes_that_operators_read(name: str, device: str) -> None:
    read, of = _namespaces()[name]
    fast = reprise.region(lambda x: read(of, x))
    x = ones(device)
    with torch.no_grad():
        for _ in range(CALLS):
            assert torch.equal(fast(x), read(of, x))
        assert fast.explain().replayed > 0  # type: ignore[attr-defined]
        of.extra = 1
        assert torch.equal(fast(x), read(of, x))
        of.k = 100
        assert torch.equal(fast(x), read(of, x))


# --- Floats whose value is taken unnoticed ---

FORMATS = {"rate": "%.1f"}


def _in_a_closure() -> Callable[..., Any]:
    how = "%.1f"
    return lambda x, t: (x * t, how % t)


_TAKEN: dict[str, tuple[Callable[..., Any], float]] = {
    "text": (lambda x, t: (x * t, "t=%.1f" % t), 0.9),
    "global text": (lambda x, t: (x * t, PERCENT % t), 0.9),
    "closure": (_in_a_closure(), 0.9),
    "default": (lambda x, t, how="%.1f": (x * t, how % t), 0.9),
    "table": (lambda x, t: (x * t, FORMATS["rate"] % t), 0.9),
    "long": (lambda x, t: (x * t, "%.1lf" % t), 0.9),
    "by name": (lambda x, t: (x * t, "%(t).1f" % {"t": t}), 0.9),
    "method of a text": (lambda x, t: (x * t, "%.1f".__mod__(t)), 0.9),
    "key": (lambda x, t: x * t * {"0.5": 1.0}.get("%.1f" % t, 2.0), 0.9),
    "bytes": (lambda x, t: (x * t, b"%.1f" % t), 0.9),
    "json": (lambda x, t: (x * t, len(json.dumps([t]))), 0.5),
    "struct": (lambda x, t: (x * t, struct.pack("e", t)), 0.9),
    "method": (lambda x, t: x * t if float.__lt__(t, 0.6) else x, 0.9),
    "integer": (lambda x, t: x * t + torch.tensor([t], dtype=torch.int64), 1.5),
    "truth": (lambda x, t: x * t + torch.tensor(t, dtype=torch.bool), 0.0),
    "hours": (lambda x, t: (x * t, datetime.timedelta(hours=t).days), 30.0),
}


@pytest.mark.parametrize("name", _TAKEN)
def test_floats_that_are_taken_unnoticed(name: str) -> None:
    read, last = _TAKEN[name]
    fast = reprise.region(read)
    x = torch.ones(2)
    with torch.no_grad():
        for t in (0.51, 0.52, 0.53, 0.54, 0.53, last):
            assert str(fast(x, t)) == str(read(x, t))


def test_a_rate_in_a_text(device: str) -> None:
    def made() -> tuple[Callable[..., Any], Any]:
        torch.manual_seed(0)
        net = nn.Linear(2, 2).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.9, 1.0, 200)

        def step(x: torch.Tensor) -> Any:
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
            return "lr %.3f" % optimizer.param_groups[0]["lr"]

        return step, schedule

    (plain, other), (step, schedule) = made(), made()
    fast = reprise.region(step)
    for _ in range(40):
        x = ones(device)
        assert fast(x) == plain(x)
        schedule.step()
        other.step()
    reasons = " ".join(fast.explain().reasons)  # type: ignore[attr-defined]
    assert "make integers of it outside" in reasons


# --- Who calls, and where ---


@pytest.mark.parametrize("ask", ["id", "thread"])
def test_which_thread_calls(ask: str, device: str) -> None:
    factors: dict[Any, torch.Tensor] = {}

    def me() -> Any:
        return threading.get_ident() if ask == "id" else threading.current_thread().name

    fast = reprise.region(lambda x: x * factors[me()])
    found: list[torch.Tensor] = []
    go, there = threading.Event(), threading.Event()

    def work() -> None:
        factors[me()] = 3 * ones(device)
        there.set()
        go.wait()
        with torch.no_grad():
            found.append(fast(ones(device)))

    factors[me()] = ones(device)
    worker = threading.Thread(target=work)
    worker.start()
    there.wait()
    with torch.no_grad():
        for _ in range(CALLS):
            assert torch.equal(fast(ones(device)), ones(device))
    assert fast.explain().replayed > 0  # type: ignore[attr-defined]
    go.set()
    worker.join()
    assert torch.equal(found[0], 3 * ones(device))


def test_how_many_threads_there_are(device: str) -> None:
    fast = reprise.region(lambda x: x * threading.active_count())
    with torch.no_grad():
        for _ in range(CALLS):
            assert torch.equal(
                fast(ones(device)), ones(device) * threading.active_count()
            )
    report = fast.explain()  # type: ignore[attr-defined]
    assert report.replayed == 0
    assert any("which threads there are" in why for why in report.reasons)


def test_settings_of_python(device: str) -> None:
    fast = reprise.region(
        lambda x: x * sys.getrecursionlimit() * (2 if gc.isenabled() else 3)
    )

    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * sys.getrecursionlimit() * (2 if gc.isenabled() else 3)

    limit = sys.getrecursionlimit()
    with torch.no_grad():
        for _ in range(CALLS):
            fast(ones(device))
        assert fast.explain().replayed > 0  # type: ignore[attr-defined]
        try:
            sys.setrecursionlimit(limit + 1)
            assert torch.equal(fast(ones(device)), plain(ones(device)))
            gc.disable()
            assert torch.equal(fast(ones(device)), plain(ones(device)))
        finally:
            gc.enable()
            sys.setrecursionlimit(limit)


# --- What a group of an optimizer holds ---


def _step(extra: Any, device: str) -> tuple[Callable[..., Any], torch.optim.Optimizer]:
    torch.manual_seed(0)
    net = nn.Linear(2, 2).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.param_groups[0]["extra"] = extra

    def step(x: torch.Tensor) -> torch.Tensor:
        held = optimizer.param_groups[0]["extra"]
        optimizer.zero_grad()
        loss = net(x).square().mean() * getattr(held, "scale", 1.0)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, optimizer


def test_an_object_in_a_group(device: str) -> None:
    class Settings:
        scale = 1.0

    settings = Settings()
    (plain, _), (step, _) = _step(settings, device), _step(settings, device)
    fast = reprise.region(step)
    for call in range(10):
        settings.scale = 3.0 if call > 5 else 1.0
        assert torch.equal(fast(ones(device)), plain(ones(device)))
    (reason,) = fast.explain().reasons  # type: ignore[attr-defined]
    assert reason.startswith("a group of an optimizer holds an object of ")


@pytest.mark.parametrize(
    "values",
    [
        (None, 1, True, 0.0, -0.0),
        ((0.9, 0.0), (0.9, -0.0), [0.9, 0.0], {"a": 1}, {"a": 2}),
        ([torch.ones(2)], (torch.ones(2), 1), torch.float32, "text", b"bytes"),
    ],
)
def test_values_of_a_group(values: tuple[Any, ...], device: str) -> None:
    """Each is known, and is another one than the others."""
    step, optimizer = _step(None, device)
    fast = reprise.region(step)
    for _ in range(4):
        fast(ones(device))
    for value in values:
        optimizer.param_groups[0]["extra"] = value
        before = fast.explain()  # type: ignore[attr-defined]
        for _ in range(6):
            fast(ones(device))
        now = fast.explain()  # type: ignore[attr-defined]
        assert now.replayed > before.replayed
        assert now.replayed < before.replayed + 6 or value is None


def test_modes_that_the_step_sets_itself(device: str) -> None:
    """Of a module that is in one mode or the other: each is a variant, and is set."""
    net = nn.Dropout(0.75).to(device)

    def step(x: torch.Tensor) -> torch.Tensor:
        net.eval()
        kept = net(x)
        net.train()
        return kept * 2

    fast: Any = reprise.region(step)
    with torch.no_grad():
        for call in range(16):
            net.train(call % 2 == 0)
            assert torch.equal(fast(ones(device)), 2 * ones(device))
            assert net.training
    assert fast.explain().replayed > 4


def test_a_partial_is_taken_by_its_arguments(device: str) -> None:
    held = functools.partial(torch.mul, other=2 * ones(device))
    fast = reprise.region(lambda x: held(x))
    with torch.no_grad():
        for _ in range(CALLS):
            fast(ones(device))
        held.keywords["other"] = 9 * ones(device)
        assert torch.equal(fast(ones(device)), 9 * ones(device))
