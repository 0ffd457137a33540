"""What hostile readers found: each program was wrong once as a region, or raised an error."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from pairs import assert_same
from torch import nn

CALLS = 8
Wrap = Callable[[Callable[..., Any]], Any]


def plain(fn: Callable[..., Any]) -> Any:
    return fn


def same(device: str, program: Callable[[str, Wrap], list[Any]]) -> Any:
    """Runs it plainly and as a region, and returns the latter."""
    made: list[Any] = []

    def region(fn: Callable[..., Any]) -> Any:
        made.append(reprise.region(fn))
        return made[-1]

    torch.manual_seed(0)
    expected = program(device, plain)
    torch.manual_seed(0)
    found = program(device, region)
    assert_same(found, expected)
    return made[0].explain()


def test_a_graph_that_was_there_before(device: str) -> None:
    """No operator is given a tensor of it."""

    def program(device: str, wrap: Wrap) -> list[Any]:
        w = torch.ones(2, device=device, requires_grad=True)
        made = w * 3
        fn = wrap(lambda g: torch.autograd.grad(made, w, g, retain_graph=True)[0])
        found = []
        for index in range(CALLS):
            if index == 5:
                made.mul_(2)
            found.append(fn(torch.ones(2, device=device)).clone())
        return found

    report = same(device, program)
    assert report.replayed == 0
    assert "goes on outside" in str(report)


def test_a_bias_alone_has_a_gradient(device: str) -> None:
    """What gives just that has saved nothing: another pass may go through it."""

    def program(device: str, wrap: Wrap) -> list[Any]:
        weight = torch.randn(5, 4, device=device)
        bias = torch.zeros(5, device=device, requires_grad=True)

        def step(x: torch.Tensor) -> torch.Tensor:
            made = nn.functional.linear(x, weight, bias)
            made.sum().backward()
            return made

        fn = wrap(step)
        found = []
        for _ in range(CALLS):
            fn(torch.ones(3, 4, device=device)).sum().backward()
            assert bias.grad is not None
            found.append(bias.grad.clone())
        return found

    same(device, program)


def test_a_detached_data_is_written(device: str) -> None:
    def program(device: str, wrap: Wrap) -> list[Any]:
        p = nn.Parameter(torch.ones(4, device=device))

        def step(x: torch.Tensor) -> torch.Tensor:
            made = (x * p).detach()
            p.data.detach().mul_(0.9)
            return made

        fn = wrap(step)
        found: list[Any] = []
        for _ in range(CALLS):
            loss = p.square().sum()
            found.append(fn(torch.ones(4, device=device)))
            loss.backward()
            found += [p._version, p.detach().clone()]
        return found

    assert same(device, program).replayed == 0


def test_the_data_of_a_view_is_returned(device: str) -> None:
    def program(device: str, wrap: Wrap) -> list[Any]:
        p = nn.Parameter(torch.ones(2, 2, device=device))
        fn = wrap(lambda x: p.t().data)
        found: list[Any] = []
        for _ in range(CALLS):
            made = fn(torch.ones(2, device=device))
            found += [made.requires_grad, made._is_view()]
            made.add_(1)
            found.append(p._version)
        return found

    assert same(device, program).replayed == 0


def test_conjugates_and_names_under_inference_mode(device: str) -> None:
    def program(device: str, wrap: Wrap) -> list[Any]:
        def pair(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            made = x * 2
            return made, made.conj()

        fn = wrap(pair)
        found: list[Any] = []
        with torch.inference_mode():
            for _ in range(CALLS):
                one, two = fn(torch.ones(2, dtype=torch.cfloat, device=device))
                two.add_(1j)
                found += [two.is_conj(), one]
        return found

    same(device, program)

    def named(device: str, wrap: Wrap) -> list[Any]:
        fn = wrap(lambda x: (x * 2).rename("n"))
        with torch.inference_mode():
            return [fn(torch.ones(2, device=device)).rename(None) for _ in range(CALLS)]

    if hasattr(torch.Tensor, "rename"):  # a torch with names
        same(device, named)


def test_writes_are_counted_where_a_tape_goes_on(device: str) -> None:
    """Of two branches, one returns what both have written."""

    def program(device: str, wrap: Wrap) -> list[Any]:
        def branches(x: torch.Tensor) -> torch.Tensor:
            made = x * 2
            made.add_(1)
            return made * 2 if made.sum() > 0 else made

        fn = wrap(branches)
        found: list[Any] = []
        for index in range(6 * CALLS):
            sign = -1.0 if index % 5 == 4 else 1.0
            made = fn(torch.full((3,), sign, device=device))
            found += [made, made._version]
            reprise.wait()
        return found

    with reprise.session(device, policy="always"):
        assert same(device, program).replayed > 0


class Slotted:
    __slots__ = ("__weakref__", "on")

    def __init__(self) -> None:
        self.on = True


@pytest.mark.parametrize("where", ["module", "list", "dict", "set", "slot", "variable"])
def test_the_callable_runs_again_for_a_backward_pass(device: str, where: str) -> None:
    """What it sets then nobody sees."""

    def program(device: str, wrap: Wrap) -> list[Any]:
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).to(device)
        flags, table, names, slotted = [True], {"on": True}, {"on"}, Slotted()
        variable = True

        def switch(on: bool) -> None:
            nonlocal variable
            if where == "module":
                net.train(on)
            elif where == "list":
                flags[0] = on
            elif where == "dict":
                table["on"] = on
            elif where == "set":
                names.clear()
                names.add("on" if on else "off")
            elif where == "slot":
                slotted.on = on
            else:
                variable = on

        def state() -> list[Any]:
            return [net.training, *flags, *table.items(), *names, slotted.on, variable]

        def train(x: torch.Tensor) -> torch.Tensor:
            switch(True)
            made: torch.Tensor = net(x)
            return made

        fn = wrap(train)
        found: list[Any] = []
        for index in range(3 * CALLS):
            switch(True)
            net.zero_grad()
            made = fn(torch.ones(2, 3, device=device))
            switch(False)
            if index < 2 * CALLS:
                made.backward(torch.ones(2, 3, device=device))
            else:
                made.sum().backward()
            found += [*state(), net[0].weight.grad]
        return found

    assert same(device, program).replayed > 0


def test_a_circle_through_many_children_ends(device: str) -> None:
    def program(device: str, wrap: Wrap) -> list[Any]:
        state = {"h": torch.zeros(3, device=device)}

        def step(x: torch.Tensor, c: dict[str, Any]) -> torch.Tensor:
            state["h"] = state["h"] + x
            c["n"] = (c.get("n", 0) + 1) % 2
            return state["h"] * 2

        fn = wrap(step)
        c: dict[str, Any] = {"kids": []}
        found = [fn(torch.ones(3, device=device), c) for _ in range(CALLS)]
        c["kids"] = [{"parent": c}, {"parent": c}]
        return [*found, fn(torch.ones(3, device=device), c)]

    same(device, program)


def test_what_is_put_into_arguments_raises_nothing(device: str) -> None:
    def iterators(device: str, wrap: Wrap) -> list[Any]:
        def step(x: torch.Tensor, c: dict[str, Any]) -> torch.Tensor:
            c["k"] = c["k"] + x
            c["q"].append(iter([1]))
            return x * 2

        fn = wrap(step)
        found = []
        for _ in range(CALLS):
            c = {"k": torch.ones(3, device=device), "q": collections.deque()}
            found += [fn(torch.ones(3, device=device), c), c["k"]]
        return found

    def odd_names(device: str, wrap: Wrap) -> list[Any]:
        class Object:
            pass

        def step(x: torch.Tensor, o: Any) -> torch.Tensor:
            o.k = x * 1
            vars(o)[1] = 2
            return x * 2

        fn = wrap(step)
        found: list[Any] = []
        for _ in range(CALLS):
            o: Any = Object()
            found += [fn(torch.ones(3, device=device), o), o.k, len(vars(o))]
        return found

    def deep(device: str, wrap: Wrap) -> list[Any]:
        def step(x: torch.Tensor, c: dict[str, Any]) -> torch.Tensor:
            nested: list[Any] = []
            for _ in range(900):
                nested = [nested]
            c["k"], c["deep"] = c["k"] + x, nested
            return x * 2

        fn = wrap(step)
        found = []
        for _ in range(CALLS):
            c: dict[str, Any] = {"k": torch.ones(3, device=device)}
            found += [fn(torch.ones(3, device=device), c), c["k"]]
        return found

    for program in (iterators, odd_names, deep):
        same(device, program)


def test_the_dictionary_of_an_object_is_another_one(device: str) -> None:
    def program(device: str, wrap: Wrap) -> list[Any]:
        class Object:
            a = 0

        def step(x: torch.Tensor, o: Any, d: dict[str, Any]) -> torch.Tensor:
            o.__dict__ = d
            return x * 2

        fn = wrap(step)
        found: list[Any] = []
        for index in range(2 * CALLS):
            o, d = Object(), {"a": 1}
            o.a = 1
            found.append(fn(torch.ones(3, device=device), o, d))
            d["a"] = index
            found.append(o.a)
        return found

    same(device, program)


def test_no_method_of_a_list_among_the_arguments_is_called(device: str) -> None:
    def program(device: str, wrap: Wrap) -> list[Any]:
        called: list[Any] = []

        class Told(list):  # type: ignore[type-arg]
            def __setitem__(self, index: Any, value: Any) -> None:
                called.append(index)
                list.__setitem__(self, index, value)

        def step(
            x: torch.Tensor, values: Any, d: dict[str, int], rate: float
        ) -> torch.Tensor:
            d["n"] = 1 - d["n"]
            return x * rate

        fn = wrap(step)
        values, d = Told([1]), {"n": 0}
        found = [fn(torch.ones(3, device=device), values, d, 0.1) for _ in range(CALLS)]
        return [*found, len(called), d["n"]]

    same(device, program)
