"""Calls of a region that a replay answers together: eager's bits, in every order."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from torch.nn import functional
from watching import assert_same_bits

WARM = 40  # calls, until plans are made and known
WIDTH = 16


class Residual(nn.Module):
    """Views, writes in place, results that are used far behind; no layer is as another.

    So that nothing in a call repeats, and a plan is of all of it.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.ModuleList(nn.Linear(WIDTH, w) for w in (12, 20, 24, 28))
        self.outer = nn.ModuleList(nn.Linear(w, WIDTH) for w in (12, 20, 24, 28))
        self.norm = nn.LayerNorm(WIDTH)
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """The last value, a view of it, and one from half-way."""
        first = x
        for i, (inner, outer) in enumerate(zip(self.inner, self.outer, strict=True)):
            y = outer(functional.gelu(inner(self.norm(x))))
            y = functional.dropout(y, self.dropout, self.training)
            x = x + y.mul_(0.25 * (i + 2))
            if i == 1:
                first = x
        return [x, x.t()[1:], first]


def batch(device: str, rows: int = 8) -> torch.Tensor:
    return torch.randn(rows, WIDTH, device=device)


class Beside:
    """A region beside a copy of its module, which no session sees."""

    def __init__(
        self, session: reprise.Session, plain: Callable[..., Any], fast: Any
    ) -> None:
        self.session = session
        self.plain = plain
        self.fast = fast
        self.kept: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []
        self.calls = 0

    def __call__(self, *given: torch.Tensor, keeps: int = 0) -> None:
        """One call of each, on the same, with the same random numbers."""
        self.calls += 1
        where = f"call {self.calls}"
        torch.manual_seed(self.calls)
        with reprise.session(enabled=False):
            expected = self.plain(*given)
            drawn = torch.rand(3)
        torch.manual_seed(self.calls)
        found = self.fast(*given)
        with reprise.session(enabled=False):
            assert_same_bits([*found, torch.rand(3)], [*expected, drawn], where)
            self.kept.append((found, [each.contiguous().clone() for each in expected]))
            for now, then in self.kept:
                assert_same_bits([each.contiguous() for each in now], then, where)
            del self.kept[: len(self.kept) - keeps]

    def warm(
        self, make: Callable[[], tuple[torch.Tensor, ...]], keeps: int = 0
    ) -> None:
        for _ in range(WARM):
            self(*make(), keeps=keeps)
            assert self.session.wait(60)

    def check(
        self,
        make: Callable[[], tuple[torch.Tensor, ...]],
        calls: int = 10,
        keeps: int = 0,
        ops: int = 1,
    ) -> None:
        """Calls, in which so many ops each were not shown one by one.

        Where in the stream traces begin is chance, and some are cut too small: then
        all is learned anew, and the next calls count.
        """
        unshown = 0
        for attempt in range(8):
            if attempt % 2 == 1:
                self.session.reset()
                self.warm(make, keeps)
            before = self.session.stats().unshown
            for _ in range(calls):
                self(*make(), keeps=keeps)
            unshown = self.session.stats().unshown - before
            if unshown >= ops * calls:
                return
            self.session.wait(60)
        raise AssertionError(f"{unshown}\n{self.session.explain()}")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("keeps", [0, 3])
def test_module(device: str, mode: Callable[[], Any], keeps: int) -> None:
    net = Residual().to(device).eval()
    with mode(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, copy.deepcopy(net), reprise.region(net))
        beside.warm(lambda: (batch(device),), keeps)
        beside.check(lambda: (batch(device),), keeps=keeps, ops=5)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_composites_that_end_in_a_view(device: str, mode: Callable[[], Any]) -> None:
    """In inference mode what `linear` and `matmul` call is not seen, but their op is."""
    net = Residual().to(device).eval()

    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        y = functional.linear(x, net.inner[0].weight, net.inner[0].bias)
        z = functional.gelu(y).matmul(net.outer[0].weight.t())
        w = z.transpose(1, 2).reshape(2, -1).tanh()
        return [w, y, torch.matmul(z, z.transpose(1, 2)).exp(), z]

    with mode(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, fn, reprise.region(fn))
        beside.warm(lambda: (torch.randn(2, 4, WIDTH, device=device),))
        beside.check(lambda: (torch.randn(2, 4, WIDTH, device=device),))


def test_operands_that_coincide_for_a_while(device: str) -> None:
    """Two parts of one buffer, in one place while all is learned."""
    buffer = torch.randn(64, device=device)
    at = 0

    def fn(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        c = (a * 2).tanh()
        d = c + a * b
        return [d.exp().sin() + 1]

    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, fn, reprise.region(fn))
        beside.warm(lambda: (buffer[:16], buffer[:16].view(16)))
        for at in (0, 8, 16, 4, 0):
            for _ in range(4):
                beside(buffer[:16], buffer[at : at + 16].view(16))


def test_gradients_of_another_form(device: str) -> None:
    """The same memory, other strides; none that lies in memory at all."""
    net = Residual().to(device)
    weight = net.inner[0].weight
    square = torch.randn(12, 16, device=device)

    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        assert weight.grad is not None
        y = (x * 2 + 1).tanh() + weight.grad.to_dense()
        return [y.exp() - x, y]

    def gradient(call: int) -> torch.Tensor:
        if call % 3 == 0:
            return square
        return square.view(16, 12).t() if call % 3 == 1 else square.to_sparse()

    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, fn, reprise.region(fn))
        weight.grad = square
        beside.warm(lambda: (torch.randn(12, 16, device=device),))
        for call in range(12):
            with reprise.session(enabled=False):
                weight.grad = gradient(call)
            beside(torch.randn(12, 16, device=device))


def test_memory_of_a_plan_is_used_again(device: str) -> None:
    """What dies within a stretch, and is written through a view, gives its place away."""
    draw = random.Random(0)
    names = [draw.choice(("sin", "tanh", "exp", "sigmoid", "abs")) for _ in range(40)]

    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        for i, name in enumerate(names):
            x = getattr(x, name)() - 0.5
            if i % 7 == 3:
                row = x[i % 8]
                row.add_(1)
        return [x]

    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, fn, reprise.region(fn))
        beside.warm(lambda: (torch.randn(8, 4096, device=device),))
        built = session.stats().builds
        beside.check(lambda: (torch.randn(8, 4096, device=device),), calls=60, ops=20)
        assert session.stats().builds <= built + 1, str(session.explain())


def test_several_calls_in_one_pass(device: str) -> None:
    """Calls in a row that become one plan are gone over in each of its places."""
    net = Residual().to(device).eval()
    plain = copy.deepcopy(net)
    fast: Any = reprise.region(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        followed = unshown = 0
        for turn in range(2 * WARM):
            inputs = [batch(device) for _ in range(4)]
            found = [fast(x) for x in inputs]
            with reprise.session(enabled=False):
                for x, given in zip(inputs, found, strict=True):
                    assert_same_bits(given, plain(x), f"turn {turn}")
            session.wait(60)
            if turn == WARM:
                before = session.stats()
                followed, unshown = before.followed, before.unshown
        stats = session.stats()
        assert stats.unshown - unshown > (stats.followed - followed) // 3


def polynomial(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """A formula: no weight tells where it begins, and each of its terms is alike."""
    for term in range(24):
        x = x * y + 0.25 * term
        z = z * y - 0.5
    return x + z


def test_a_call_without_weights_is_one_pass(device: str) -> None:
    inputs = [tuple(batch(device) for _ in range(3)) for _ in range(4)]
    fast = reprise.region(polynomial)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        for call in range(32):
            given = inputs[call % len(inputs)]
            before = session.stats()
            found = fast(*given)
            now = session.stats().since(before)
            session.wait(60)
            with reprise.session(device, enabled=False):
                assert_same_bits(found, polynomial(*given))
            if call >= 8:
                assert (now.replays, now.followed, now.ops) == (1, 97, 97)


def test_eager_ops_round_calls_without_weights(device: str) -> None:
    """They are in no plan of theirs."""
    x, y, z = (batch(device) for _ in range(3))
    fast = reprise.region(polynomial)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        for call in range(48):
            kept = y
            for _ in range(call % 3):
                kept = kept.sin()
            before = session.stats()
            found = fast(x, kept, z)
            now = session.stats().since(before)
            session.wait(60)
            with reprise.session(device, enabled=False):
                assert_same_bits(found, polynomial(x, kept, z))
            if call >= 36:
                assert now.followed == now.ops == 97


def test_default_policy(device: str) -> None:
    net = Residual().to(device).eval()
    with torch.no_grad(), reprise.session(device) as session:
        session.reset()
        beside = Beside(session, copy.deepcopy(net), reprise.region(net))
        beside.warm(lambda: (batch(device),))
        for _ in range(20):
            beside(batch(device))
        session.reset()  # other tests look at what this policy reports


def test_random_numbers_are_drawn_where_they_are(device: str) -> None:
    net = Residual(dropout=0.4).to(device)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, copy.deepcopy(net), reprise.region(net))
        beside.warm(lambda: (batch(device),))
        beside.check(lambda: (batch(device),))


def test_parameters_elsewhere(device: str) -> None:
    """New memory behind a parameter, or a new parameter, between any two calls."""
    net = Residual().to(device).eval()
    plain = copy.deepcopy(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, plain, reprise.region(net))
        beside.warm(lambda: (batch(device),))
        for turn in range(12):
            weight = torch.randn_like(net.inner[turn % 4].weight)
            for each in (net, plain):
                layer: Any = each.inner[turn % 4]
                if turn % 3 == 2:
                    layer.weight = nn.Parameter(weight.clone(), requires_grad=False)
                elif turn % 3 == 1:
                    layer.weight.copy_(weight)
                else:
                    layer.weight.data = weight.clone()
            for _ in range(turn % 4 + 1):
                beside(batch(device))
        beside.warm(lambda: (batch(device),))
        beside.check(lambda: (batch(device),))


def test_state_that_is_written_is_written_once(device: str) -> None:
    class Counting(Residual):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(WIDTH))
            self.bn = nn.BatchNorm1d(WIDTH)

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            found = super().forward(self.bn(x))
            self.total.add_(found[0].mean(0))
            return [*found, (found[0] + self.total).tanh().relu() * 2]

    net = Counting().to(device)
    plain = copy.deepcopy(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, plain, reprise.region(net))
        beside.warm(lambda: (batch(device),))
        versions = [
            [each._version for each in module.buffers()] for module in (net, plain)
        ]
        beside.check(lambda: (batch(device),), calls=10, ops=3)
        for before, module in zip(versions, (net, plain), strict=True):
            now = [each._version for each in module.buffers()]
            written = [b - a for a, b in zip(before, now, strict=True)]
            assert written[0] == written[3] == 10, written
        assert_same_bits(list(net.buffers()), list(plain.buffers()))


def test_whole_step(device: str) -> None:
    net = Residual(dropout=0.1).to(device)
    plain = copy.deepcopy(net)

    def step_of(module: nn.Module) -> Callable[..., list[torch.Tensor]]:
        fused = torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)

        def step(x: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
            fused.zero_grad()
            loss = functional.mse_loss(module(x)[0], target)
            loss.backward()
            fused.step()
            return [loss.detach()]

        return step

    def make() -> tuple[torch.Tensor, torch.Tensor]:
        return batch(device), batch(device)

    with reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, step_of(plain), reprise.region(step_of(net)))
        beside.warm(make, keeps=2)
        beside.check(make, keeps=2, ops=5)
        assert_same_bits(list(net.parameters()), list(plain.parameters()))
        grads = [[p.grad for p in each.parameters()] for each in (net, plain)]
        assert_same_bits(*grads)


def test_gradients_that_others_hold(device: str) -> None:
    """What a step hands out as gradients stays what it was."""
    net = Residual().to(device)

    @reprise.region
    def step(x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss: torch.Tensor = net(x)[0].square().mean()
        loss.backward()
        return loss.detach()

    plain = copy.deepcopy(net)
    held: list[tuple[list[Any], list[Any]]] = []
    with reprise.session(device, policy="always") as session:
        session.reset()
        for call in range(WARM + 10):
            x = batch(device)
            step(x)
            with reprise.session(enabled=False):
                plain.zero_grad()
                plain(x)[0].square().mean().backward()
            found = [p.grad for p in net.parameters()]
            expected = [p.grad for p in plain.parameters()]
            if call % 3 == 0:
                held.append((found, [g.clone() for g in expected if g is not None]))
            with reprise.session(enabled=False):
                for now, then in held:
                    assert_same_bits(now, then, f"call {call}")
            del held[:-3]
            session.wait(60)
        assert session.stats().unshown > 0


def test_input_and_output_are_used_meanwhile(device: str) -> None:
    """The program writes what it gave, and what it was given."""
    net = Residual().to(device).eval()
    plain = copy.deepcopy(net)
    fast: Any = reprise.region(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        for call in range(WARM + 10):
            x = batch(device)
            found = fast(x)
            with reprise.session(enabled=False):
                expected = plain(x)
            x.zero_()
            with reprise.session(enabled=False):
                assert_same_bits(found, expected, f"call {call}")
            found[0].fill_(7)
            with reprise.session(enabled=False):
                expected[0].fill_(7)
                assert_same_bits(found, expected, f"call {call}, written")
            session.wait(60)
        assert session.stats().unshown > 0


def test_two_regions_and_eager_in_turn(device: str) -> None:
    nets = [Residual().to(device).eval() for _ in range(2)]
    plain = copy.deepcopy(nets)
    fast: list[Any] = [reprise.region(net) for net in nets]
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        for call in range(WARM + 20):
            x = batch(device)
            given, expected = x, x
            for i in (0, 1, 1, 0)[: 2 + call % 3]:
                given = fast[i](given)[0] * 2
                with reprise.session(enabled=False):
                    expected = plain[i](expected)[0] * 2
            with reprise.session(enabled=False):
                assert_same_bits([given], [expected], f"call {call}")
            session.wait(60)
        assert session.stats().unshown > 0


@pytest.mark.gpu
def test_regions_of_programs_with_several_streams() -> None:
    """Whole steps, which write weights, while another stream has a session."""
    side = torch.cuda.Stream()
    nets = [Residual().cuda() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())

    def step(net: Residual, x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss: torch.Tensor = net(x)[0].square().mean()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p.sub_(p.grad, alpha=0.01)
        return loss.detach()

    fast: Any = reprise.region(lambda x: step(nets[0], x))
    with reprise.session("cuda", policy="always") as session:
        session.reset()
        for call in range(WARM + 20):
            x = batch("cuda")
            if call % 7 == 0:
                with torch.cuda.stream(side):
                    (batch("cuda") * 2).relu_().sum()
            before = session.stats().unshown
            found = fast(x)
            unshown = session.stats().unshown - before
            with reprise.session("cuda", enabled=False):
                assert_same_bits([found], [step(nets[1], x)], f"call {call}")
                assert_same_bits(
                    *[list(net.state_dict().values()) for net in nets], f"call {call}"
                )
            session.wait(60)
        assert unshown > 80, str(session.explain())


def test_memory_is_given_back(device: str) -> None:
    """Plans go, and are made anew, between calls."""
    net = Residual().to(device).eval()
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, copy.deepcopy(net), reprise.region(net))
        for _ in range(4):
            beside.warm(lambda: (batch(device),))
            beside.check(lambda: (batch(device),), ops=5)
            session.reset()


def test_shapes_in_turn(device: str) -> None:
    net = Residual().to(device).eval()
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        beside = Beside(session, copy.deepcopy(net), reprise.region(net))
        rows = [3, 8, 5, 8, 3]
        sizes = iter(rows * 100)
        beside.warm(lambda: (batch(device, next(sizes)),))
        beside.warm(lambda: (batch(device, next(sizes)),))
        beside.check(lambda: (batch(device, next(sizes)),), ops=5)


@pytest.mark.gpu
def test_streams_in_turn() -> None:
    net = Residual().cuda().eval()
    plain = copy.deepcopy(net)
    fast: Any = reprise.region(net)
    streams = [torch.cuda.Stream() for _ in range(2)]
    with torch.no_grad(), reprise.session("cuda", policy="always") as session:
        session.reset()
        for call in range(2 * WARM):
            x = batch("cuda")
            torch.cuda.synchronize()
            with torch.cuda.stream(streams[call % 2]):
                found = fast(x)
            torch.cuda.synchronize()
            with reprise.session(enabled=False):
                expected = plain(x)
            assert_same_bits(found, expected, f"call {call}")
            session.wait(60)
