"""Attributes of modules that a region's calls set to tensors."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits, in_threads

CALLS = 12


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with torch.no_grad(), reprise.session(device, policy="always"):
        yield


class Masked(nn.Module):
    """Its user sets the mask before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.mask = torch.zeros(1)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.mask * self.scale


class Net(nn.Module):
    """Hands a mask to its layers by attributes, and keeps what it last saw."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Masked() for _ in range(3))
        self.register_buffer("mean", torch.zeros(8))
        self.hidden: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = (x > 0).float()
        for layer in self.layers:
            layer.mask = mask
            x = layer(x)
        self.hidden = x * 2
        self.mean = x.mean(0)
        return x.sin() if self.training else x.cos()


def attributes(net: Any) -> list[torch.Tensor]:
    kept = [*(layer.mask for layer in net.layers), net.hidden, net.mean]
    assert all(kept[0] is mask for mask in kept[:3])
    return kept


def batch(device: str) -> torch.Tensor:
    return torch.randn(4, 8).to(device)


def eagerly(device: str, fn: Callable[..., Any], *args: Any) -> Any:
    with reprise.session(device, enabled=False):
        return fn(*args)


def pair(device: str, net: nn.Module) -> tuple[Any, Any, Any]:
    net = net.to(device).eval()
    return net, reprise.region(net), copy.deepcopy(net)


def test_replays_set_them(device: str) -> None:
    net, fast, twin = pair(device, Net())
    kept = []
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        kept.append((attributes(net), attributes(twin)))
        assert net._buffers["mean"] is net.mean
    for ours, theirs in kept:
        for mine, other in zip(ours, theirs, strict=True):
            assert_same_bits(mine, other)
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.train(not net.training),
        lambda net: setattr(net.layers[1], "scale", net.layers[1].scale + 1),
        lambda net: setattr(
            net.layers[2], "linear", nn.Linear(8, 8).to(net.mean.device)
        ),
        lambda net: net.layers[0].linear.weight.data.mul_(2),
        lambda net: setattr(net.layers[0], "mask", torch.ones(3)),
        lambda net: setattr(net, "hidden", None),
        lambda net: setattr(net.layers[0], "forward", net.layers[1].forward),
    ],
)
def test_what_else_is_another_one_is_seen(
    device: str, change: Callable[[Any], Any]
) -> None:
    net, fast, twin = pair(device, Net())
    for _ in range(3):
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(x), eagerly(device, twin, x))
            for mine, other in zip(attributes(net), attributes(twin), strict=True):
                assert_same_bits(mine, other)
        assert fast.explain().replayed > 0, str(fast.explain())
        torch.manual_seed(0)
        change(net)
        torch.manual_seed(0)
        change(twin)


class Caching(nn.Module):
    """Makes what it needs once."""

    def __init__(self) -> None:
        super().__init__()
        self.table: torch.Tensor | None = None
        self.factor = 3.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.arange(8, device=x.device) * self.factor
        return x * self.table + 1


def test_what_is_made_once(device: str) -> None:
    net, fast, twin = pair(device, Caching())
    old = []
    for _ in range(3):
        replayed = fast.explain().replayed
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(x), eagerly(device, twin, x))
        assert fast.explain().replayed > replayed, str(fast.explain())
        old.append(net.table)  # it lives on
        for each in (net, twin):
            each.table = None
            each.factor += 1


class Sometimes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turn = [0]
        self.seen = torch.zeros(1)

    def forward(self, x: torch.Tensor, keeps: bool) -> torch.Tensor:
        y = x * 2 + 1
        if keeps:
            self.seen = y
        return y + self.seen


def test_set_in_some_calls_and_read(device: str) -> None:
    net, fast, twin = pair(device, Sometimes())
    for call in range(5 * CALLS):
        x, keeps = batch(device), call % 3 == 0 or call in (20, 40)
        assert_same_bits(fast(x, keeps), eagerly(device, twin, x, keeps))
        assert_same_bits(net.seen, twin.seen)


class Recurrent(nn.Module):
    """Reads what the call before has left."""

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = self.state.to(x.device) * 0.5 + x
        return self.state.tanh()


def test_read_before_it_is_set(device: str) -> None:
    net, fast, twin = pair(device, Recurrent())
    for _ in range(4 * CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert_same_bits(net.state, twin.state)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += len(x)
        self.last = x
        return x + 1


class Telling(nn.Module):
    """Its attributes are set by what it does itself."""

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["told"] = 0
        self.last = torch.zeros(1)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "last":
            self.__dict__["told"] = self.__dict__["told"] + 1
        super().__setattr__(name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * 2
        return x + 1


@pytest.mark.parametrize("kind", [Counting, Telling])
def test_what_no_replay_would_do_is_refused(device: str, kind: Any) -> None:
    net, fast, twin = pair(device, kind())
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert_same_bits(net.last, twin.last)
    assert getattr(net, "calls", 0) == getattr(twin, "calls", 0)
    assert net.__dict__.get("told") == twin.__dict__.get("told")
    assert fast.explain().replayed == 0


class Handing(nn.Module):
    """Sets them to an argument, and one tensor twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))
        self.given = self.first = self.second = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.given = x
        self.first = self.second = x * self.weight
        return self.first + 1


def test_arguments(device: str) -> None:
    net, fast, twin = pair(device, Handing())
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert net.given is x and net.first is net.second
        assert_same_bits(net.first, twin.first)
        net.first.add_(1)  # it is the program's
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


def test_an_attribute_as_the_next_argument(device: str) -> None:
    net, fast, twin = pair(device, Net())
    x = batch(device)
    y = x.clone()
    for _ in range(CALLS):
        assert_same_bits(fast(x), eagerly(device, twin, y))
        x, y = net.hidden, twin.hidden
        assert_same_bits(x, y)
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


def test_with_gradients(device: str) -> None:
    """A loss of what a module keeps."""
    net, fast, twin = pair(device, Net())
    with torch.enable_grad():
        for _ in range(CALLS):
            x = batch(device)
            for each, call in ((net, fast), (twin, twin)):
                each.zero_grad()
                (call(x).sum() + each.hidden.square().sum()).backward()
            for mine, other in zip(net.parameters(), twin.parameters(), strict=True):
                assert (mine.grad is None) == (other.grad is None)
                if mine.grad is not None:
                    assert_same_bits(mine.grad, other.grad)


class Detached(Net):
    """What it keeps has no history."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        assert self.hidden is not None
        self.hidden = self.hidden.detach()
        self.mean = self.mean.detach()
        return y


@pytest.mark.parametrize("kind", [Net, Detached])
def test_a_whole_step(device: str, kind: Any) -> None:
    net, _, twin = pair(device, kind())
    steps = []
    for each in (net, twin):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)

        def step(x: torch.Tensor, each: Any = each, by: Any = optimizer) -> Any:
            by.zero_grad()
            loss = each(x).sum() + each.hidden.square().sum()
            loss.backward()
            by.step()
            return loss.detach()

        steps.append(step)
    fast: Any = reprise.region(steps[0])
    with torch.enable_grad():
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(x), eagerly(device, steps[1], x))
            assert_same_bits(net.hidden.detach(), twin.hidden.detach())
    for mine, other in zip(net.parameters(), twin.parameters(), strict=True):
        assert_same_bits(mine, other)
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


def test_two_regions_of_one_module(device: str) -> None:
    """One that sets them, and one that reads what the other has set."""
    net, fast, twin = pair(device, Net())
    reads: Any = reprise.region(lambda x: x * net.hidden + net.layers[0].scale)
    for call in range(3 * CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        expected = eagerly(device, lambda x: x * twin.hidden + twin.layers[0].scale, x)
        assert_same_bits(reads(x), expected)
        if call == CALLS:
            net.layers[0].scale = twin.layers[0].scale = 5.0
    assert fast.explain().replayed >= 2 * CALLS, str(fast.explain())


class Remembering(nn.Module):
    """What it does depends on what the call before has left, by Python."""

    def __init__(self) -> None:
        super().__init__()
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last = self.last
        if last is None or last.shape != x.shape or last.dtype != x.dtype:
            last = torch.zeros_like(x)
        self.last = x * 2
        return x + last


def test_what_python_asks_of_the_old_one(device: str) -> None:
    net, fast, twin = pair(device, Remembering())
    mine = torch.full((4, 8), 3.0).to(device)
    for call in range(10 * CALLS):
        x = batch(device)[: 2 + call % 3 // 2]
        if call % 7 == 5:
            net.last = twin.last = None
        if call % 7 == 3:
            net.last = twin.last = torch.ones(x.shape, dtype=torch.double).to(device)
        if call > 5 * CALLS:  # the program's own, each time
            net.last = twin.last = mine
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert_same_bits(net.last, twin.last)
    assert fast.explain().replayed > 5 * CALLS, str(fast.explain())


@pytest.mark.parametrize("put", ["history", "attribute", "parameter", "nothing"])
def test_something_else_in_their_place(device: str, put: str) -> None:
    net, fast, twin = pair(device, Remembering())
    for call in range(4 * CALLS):
        x = batch(device)
        if call % CALLS == CALLS - 1:
            for each in (net, twin):
                value: Any = torch.ones(4, 8).to(device)
                if put == "history":
                    value.requires_grad_()
                elif put == "attribute":
                    value.of_mine = 1
                elif put == "parameter":
                    del each.last
                    value = nn.Parameter(value)
                if put == "nothing":
                    each.last = None
                else:
                    each.last = value
        if put == "parameter" and call >= CALLS - 1:
            with pytest.raises(TypeError, match="parameter"):
                eagerly(device, twin, x)
            with pytest.raises(TypeError, match="parameter"):
                fast(x)
            continue
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert_same_bits(net.last, twin.last)
    assert fast.explain().replayed > 0, str(fast.explain())


class Modes(nn.Module):
    """Keeps more in one mode than in the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.second = torch.zeros(1)
        self.both = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first = x * 2
        if self.both:
            self.second = x * 3
        return x + 1


def test_another_attribute_of_the_same_module(device: str) -> None:
    net, fast, twin = pair(device, Modes())
    for both in (False, True, False, True):
        net.both = twin.both = both
        replayed = fast.explain().replayed
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(x), eagerly(device, twin, x))
            assert_same_bits((net.first, net.second), (twin.first, twin.second))
        assert fast.explain().replayed > replayed, str(fast.explain())


def test_modules_that_take_each_others_place(device: str) -> None:
    net, fast, twin = pair(device, Net())
    for _ in range(4):
        replayed = fast.explain().replayed
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(x), eagerly(device, twin, x))
            for mine, other in zip(attributes(net), attributes(twin), strict=True):
                assert_same_bits(mine, other)
        assert fast.explain().replayed > replayed, str(fast.explain())
        net.layers[1] = Masked().to(device).eval()
        twin.layers[1] = copy.deepcopy(net.layers[1])


class Broken(nn.Module):
    """Sets it by what nobody looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(1)
        self.promise = ctypes.c_bool(True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.promise.value:
            self.seen = x * 2
        return x + 1


def test_a_sample_that_sets_nothing(device: str) -> None:
    """Found within the bound, and right from then on."""
    net, fast, _ = pair(device, Broken())
    for _ in range(CALLS):
        fast(batch(device))
    assert fast.explain().replayed > 0, str(fast.explain())
    net.promise.value = False
    for _ in range(600):
        fast(batch(device))
    seen = net.seen
    fast(batch(device))
    assert net.seen is seen
    assert any("withdrawn" in each for each in fast.explain().reasons)


def test_modules_go(device: str) -> None:
    net = Net().to(device).eval()
    weights = [weakref.ref(each) for each in net.parameters()]
    fast = reprise.region(lambda x, net: net(x))
    for _ in range(CALLS):
        fast(batch(device), net)
    assert fast.explain().replayed > 0, str(fast.explain())
    del net
    gc.collect()
    assert all(ref() is None for ref in weights)


class Shows(nn.Module):
    """Sets attributes that it does not read: threads may call it at once, also in eager."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.hidden: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
            layer.seen = x
        self.hidden = x * 2
        return x.cos()


def test_several_threads(device: str) -> None:
    net, fast, twin = pair(device, Shows())
    with torch.no_grad():
        for _ in range(CALLS):
            fast(batch(device))
    before = fast.explain().replayed
    assert before > 0, str(fast.explain())

    @torch.no_grad()
    def work(_: int) -> None:
        for call in range(5 * CALLS):
            x = batch(device)
            assert_same_bits(fast(x), twin(x))
            if call == CALLS:
                net.layers[0].extra = call  # of no interest

    in_threads(work, 3)
    assert fast.explain().replayed > before, str(fast.explain())


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mask = torch.zeros(1)

    @reprise.eager
    def attend(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attend(x) + 1


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner.mask = (x > 0).float()
        return self.inner(x)


def test_a_function_that_runs_each_time_reads_one(device: str) -> None:
    """Between the pieces of a replay it is not set yet: refused."""
    net, fast, twin = pair(device, Outer())
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert_same_bits(net.inner.mask, twin.inner.mask)
    assert any("run each time" in each for each in fast.explain().reasons)


class Data(nn.Module):
    """Sets it to what has a parameter's memory and form."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(8))
        self.v = self.w.data
        self.h = torch.zeros(8)

    def forward(self, x: torch.Tensor, own: bool) -> torch.Tensor:
        self.h = self.v if own else x * 2
        return x + self.w


def test_it_is_that_very_tensor(device: str) -> None:
    net, fast, twin = pair(device, Data())
    net.v, twin.v = net.w.data, twin.w.data
    for call in range(4 * CALLS):
        x = batch(device)
        own = call % 2 == 1
        assert_same_bits(fast(x, own), eagerly(device, twin, x, own))
        assert type(net.h) is torch.Tensor
        assert (net.h is net.v) == own
        assert_same_bits(net.h, twin.h)


class Same(nn.Module):
    """Asks which tensor it is."""

    def __init__(self) -> None:
        super().__init__()
        self.h = torch.zeros(8)
        self.g = torch.ones(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1 if self.h is self.g else x + 2
        self.h = x * 2
        return y.sin() if x is self.g else y


def test_which_tensor_it_is(device: str) -> None:
    net, fast, twin = pair(device, Same())
    for call in range(6 * CALLS):
        x = batch(device)
        xs = [x, x]
        if call % 5 == 4:
            net.h, twin.h = net.g, twin.g
        if call % 7 == 6:
            xs = [net.g, twin.g]
        assert_same_bits(fast(xs[0]), eagerly(device, twin, xs[1]))
        assert_same_bits(net.h, twin.h)
    assert fast.explain().replayed > CALLS, str(fast.explain())


class Named(nn.Module):
    """Sets them by names that its code does not say."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(3):
            setattr(self, f"seen{i}", x * i)
        return x + 1


def test_names_that_code_does_not_say(device: str) -> None:
    net, fast, twin = pair(device, Named())
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        for i in range(3):
            assert_same_bits(getattr(net, f"seen{i}"), getattr(twin, f"seen{i}"))
    assert fast.explain().replayed > 0, str(fast.explain())


class Several(nn.Module):
    """Each way of calling it sets another one."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(6):
            setattr(self, f"h{i}", torch.zeros(1))
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, which: int) -> torch.Tensor:
        y = self.linear(x)
        if which == 0:
            self.h0 = y
        elif which == 1:
            self.h1 = y * 2
        elif which == 2:
            self.h2 = y * 3
        return y + which


def test_threads_that_set_others(device: str) -> None:
    net, fast, twin = pair(device, Several())

    @torch.no_grad()
    def work(which: int) -> None:
        for _ in range(10 * CALLS):
            x = batch(device)
            found = fast(x, which)
            assert_same_bits(found, twin.linear(x) + which)
            if which < 3:
                mine = (net.h0, net.h1, net.h2)[which]
                assert_same_bits(mine, twin.linear(x) * (which + 1))

    in_threads(work, 4)


@torch.library.custom_op("reprise_test::masked_by_outer", mutates_args=())
def masked_by_outer(x: torch.Tensor) -> torch.Tensor:
    return x * Peeking.now.mask


class Peeking(nn.Module):
    """A kernel of Python's reads what it has set."""

    now: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.mask = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Peeking.now = self
        self.mask = (x > 0).float()
        return torch.ops.reprise_test.masked_by_outer(x) + 1


def test_an_operator_that_reads_one(device: str) -> None:
    net, fast, twin = pair(device, Peeking())
    Peeking.now = net
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        Peeking.now = net
        assert_same_bits(net.mask, twin.mask)
    assert any("operators of others" in each for each in fast.explain().reasons)


@dataclasses.dataclass(frozen=True)
class Settings:
    by: float = 2.0


class Counted(nn.Module):
    """Its user counts on it, and nobody reads that."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.settings.by


def test_what_code_does_not_name_may_change(device: str) -> None:
    net, fast, twin = pair(device, Counted())
    for call in range(10 * CALLS):
        net.step = twin.step = call
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
    assert fast.explain().replayed > 5 * CALLS, str(fast.explain())
