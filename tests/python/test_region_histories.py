"""Histories of what a region returns, where a backward pass inside has used some of them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from pairs import CALLS
from torch import nn
from watching import assert_same_bits

Fn = Callable[[torch.Tensor], Any]


pytestmark = pytest.mark.usefixtures("replaying")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)


def stacked(net: Net, x: torch.Tensor) -> Any:
    """As the states of a recurrent module are, behind its last steps."""
    h = net.one(x).tanh()
    out = net.two(h).tanh()
    out.square().mean().backward()
    return torch.stack([h, out]), torch.cat([out, h])[2:]


def other_heads(net: Net, x: torch.Tensor) -> Any:
    """What was computed, and is no part of the loss."""
    h = net.one(x).tanh()
    net.two(h).square().mean().backward()
    return (h * 2).exp(), h.view(-1) + h.sum()


def losses(net: Net, x: torch.Tensor) -> Any:
    one, two = net.one(x).square().mean(), net.two(x).abs().sum()
    loss = one + 0.5 * two
    loss.backward()
    return loss, one, two


@pytest.mark.parametrize("fn", [stacked, other_heads, losses])
def test_what_leads_to_nothing_but_what_is_used_up(device: str, fn: Any) -> None:
    """Eager raises an error behind them: replays give them without a history."""
    net, twin = Net().to(device), Net().to(device)
    fast: Any = reprise.region(lambda x: fn(net, x))
    for _ in range(CALLS):
        x = torch.randn(4, 8).to(device)
        found, expected = fast(x), fn(twin, x)
        for mine, other in zip(found, expected, strict=True):
            assert_same_bits(mine.detach(), other.detach())
            with pytest.raises(RuntimeError):
                other.sum().backward()
            with pytest.raises(RuntimeError):
                mine.sum().backward()
        for one, two in zip(net.parameters(), twin.parameters(), strict=True):
            assert_same_bits(one.grad, two.grad)
    assert fast.explain().replayed > 0, fast.explain()


def of_leaves(net: Net, x: torch.Tensor) -> torch.Tensor:
    (net.one(x).square().mean() + net.two(x).mean()).backward()
    return net.one.weight + net.two.weight


def a_view(net: Net, x: torch.Tensor) -> torch.Tensor:
    """The pass inside went through it, and another one may."""
    weight = net.one.weight.t()
    (x @ weight).square().mean().backward()
    return weight


def a_penalty(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.two(net.one(x).tanh()).square().mean().backward()
    return net.one.weight.square().sum()


def a_sum(net: Net, x: torch.Tensor) -> torch.Tensor:
    """No function of its history has saved a tensor."""
    loss = net.one.weight.sum() - net.two.bias.mean()
    loss.backward()
    return loss


def beside_one_that_is_used_up(net: Net, x: torch.Tensor) -> torch.Tensor:
    """One half of it leads on."""
    h = net.one(x).tanh()
    h.sum().backward()
    return torch.cat([h.detach(), net.two.weight])


@pytest.mark.parametrize(
    "fn", [of_leaves, a_view, a_penalty, a_sum, beside_one_that_is_used_up]
)
def test_what_another_pass_may_begin_at(device: str, fn: Any) -> None:
    """It keeps its history, of which the program makes gradients: the callable runs."""
    net, twin = Net().to(device), Net().to(device)
    fast: Any = reprise.region(lambda x: fn(net, x))
    for _ in range(CALLS):
        x = torch.randn(4, 8).to(device)
        for each, found in ((net, fast(x)), (twin, fn(twin, x))):
            assert found.requires_grad
            (found.sin().sum() + each.two.weight.mean()).backward()
        for one, two in zip(net.parameters(), twin.parameters(), strict=True):
            assert (one.grad is None) == (two.grad is None)
            if one.grad is not None:
                assert_same_bits(one.grad, two.grad)
            one.grad = two.grad = None
    assert fast.explain().replayed == 0
    assert "an output has a history still" in str(fast.explain())


# --- What a region is given has a history ---


class Handed(torch.autograd.Function):
    """Hands its gradient on, by no operator."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient


def detached(net: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    """Truncated backpropagation, whose state goes from call to call."""
    state = state.detach()
    for each in x:
        state = (net.one(each) + net.two(state)).tanh()
    state.square().mean().backward()
    return torch.stack([state, state * 2])


def read_without_gradients(net: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    with torch.no_grad():
        scale = state.abs().mean()
    net.one(x * scale).square().mean().backward()
    return scale


def under_a_hook(net: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    """The engine's first operator is a hook's, before the function runs that it is of."""
    leaf = (x + state.detach()).requires_grad_()
    leaf.register_hook(lambda gradient: gradient * 2)
    net.one(leaf).square().mean().backward()
    return leaf.grad


def as_a_target(net: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    """Its gradient is asked for, and is handed back."""
    loss = (net.one(x) * state).square().mean()
    (found,) = torch.autograd.grad(loss, [state])
    return found


def call_with_history(
    fn: Any, given: Callable[[Net], torch.Tensor], device: str
) -> reprise.RegionReport:
    """Compare results and all gradients with those of a twin, of which the state is made."""
    net, twin = Net().to(device), Net().to(device)
    fast: Any = reprise.region(lambda x, state: fn(net, x, state))
    plain = lambda x, state: fn(twin, x, state)  # noqa: E731
    for _ in range(CALLS):
        x = torch.randn(4, 8).to(device)
        made = []
        for of, call in ((net, fast), (twin, plain)):
            state = given(of)
            assert state.grad_fn is not None
            try:
                made.append(call(x, state).detach())
            except RuntimeError as error:
                made.append(torch.tensor(len(str(error))))
        assert_same_bits(*made)
        for one, two in zip(net.parameters(), twin.parameters(), strict=True):
            assert (one.grad is None) == (two.grad is None)
            if one.grad is not None:
                assert_same_bits(one.grad, two.grad)
                one.grad = two.grad = None
    found: reprise.RegionReport = fast.explain()
    return found


def of_a_sum(net: Net) -> torch.Tensor:
    """Behind which no function calls anything."""
    return net.one.weight + net.two.weight


def of_an_operator(net: Net) -> torch.Tensor:
    return net.one.weight.sin()


@pytest.mark.parametrize("given", [of_a_sum, of_an_operator])
@pytest.mark.parametrize("fn", [detached, read_without_gradients, under_a_hook])
def test_a_history_to_which_no_pass_goes(device: str, fn: Any, given: Any) -> None:
    shaped = lambda net: given(net)[:1]  # noqa: E731
    report = call_with_history(fn, shaped, device)
    assert report.replayed > 0, report


def test_states_that_go_from_call_to_call(device: str) -> None:
    net, twin = Net().to(device), Net().to(device)
    fast: Any = reprise.region(lambda x, state: detached(net, x, state))
    state = other = torch.zeros(1, 8).to(device)
    for _ in range(2 * CALLS):
        x = torch.randn(3, 8).to(device)
        state, other = fast(x, state)[0], detached(twin, x, other)[0]
        assert_same_bits(state.detach(), other.detach())
        for one, two in zip(net.parameters(), twin.parameters(), strict=True):
            assert_same_bits(one.grad, two.grad)
            if one.grad is not None:
                with torch.no_grad():
                    for each in (one, two):
                        each.sub_(each.grad)
                one.grad = two.grad = None
    assert fast.explain().replayed > CALLS, fast.explain()


def by_an_operator(net: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    loss = (net.one(x).sum(0) * state).sum()
    loss.backward()
    return loss


def by_a_sum(net: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    loss = net.one(x).mean() + state.sum()
    loss.backward()
    return loss.detach()


def by_a_function(_: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    Handed.apply(state).backward(x[:1].expand_as(state))
    return x * 2


def by_itself(_: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    torch.autograd.backward([state], [x[:1].expand_as(state)])
    return x * 2


def without_records(net: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    """Torch tells nobody which functions run."""
    torch.autograd._enable_record_function(False)
    try:
        by_a_function(net, x, state)
        net.one(x).square().mean().backward()
    finally:
        torch.autograd._enable_record_function(True)
    return x * 2


def by_a_view(net: Net, x: torch.Tensor, state: torch.Tensor) -> Any:
    loss = state.view(-1)[3:].sum() * net.one(x).mean()
    loss.backward()
    return loss


@pytest.mark.parametrize("given", [of_a_sum, of_an_operator])
@pytest.mark.parametrize(
    "fn",
    [by_an_operator, by_a_sum, by_a_function, by_itself, by_a_view, without_records],
)
def test_a_history_along_which_a_pass_goes(device: str, fn: Any, given: Any) -> None:
    """Replays would give its leaves no gradients: the callable runs."""
    report = call_with_history(fn, given, device)
    assert report.replayed == 0
    assert "goes on outside" in str(report)


def test_a_gradient_of_what_has_a_history(device: str) -> None:
    report = call_with_history(as_a_target, lambda net: net.one.weight[:1] * 2, device)
    assert report.replayed > 0, report


def test_a_tensor_from_outside_with_a_history(device: str) -> None:
    """It is no argument; one pass goes there, and the other one does not."""
    for reaches in (False, True):
        net, twin = Net().to(device), Net().to(device)

        def step(of: Net, state: torch.Tensor, x: torch.Tensor, reaches: bool) -> Any:
            read = state if reaches else state.detach()
            (of.one(x).sum(0) * read).sum().backward(inputs=list(of.parameters()))
            return x * 2

        states = net.two.weight.sin()[:1], twin.two.weight.sin()[:1]
        fast: Any = reprise.region(
            lambda x, net=net, state=states[0], reaches=reaches: step(
                net, state, x, reaches
            )
        )
        for _ in range(CALLS):
            x = torch.randn(4, 8).to(device)
            errors = []
            for call in (
                fast,
                lambda x, twin=twin, state=states[1], reaches=reaches: step(
                    twin, state, x, reaches
                ),
            ):
                try:
                    call(x)
                except RuntimeError as error:
                    errors.append(str(error))
            assert len(errors) in (0, 2)
            for one, two in zip(net.parameters(), twin.parameters(), strict=True):
                assert (one.grad is None) == (two.grad is None)
                if one.grad is not None:
                    assert_same_bits(one.grad, two.grad)
        if reaches:
            assert fast.explain().replayed == 0


def test_a_pass_through_what_was_computed_outside_is_named(device: str) -> None:
    """As a policy learns: each step of an episode has left a history."""
    net = Net().to(device)
    optimizer = torch.optim.Adam(net.parameters())

    def learn(logs: list[torch.Tensor], gains: torch.Tensor) -> None:
        loss = torch.cat([-log * gain for log, gain in zip(logs, gains, strict=True)])
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()

    fast: Any = reprise.region(learn)
    for _ in range(CALLS):
        seen = [torch.randn(1, 8).to(device) for _ in range(3)]
        logs = [net.two(net.one(x).relu()).log_softmax(1)[:, 0] for x in seen]
        fast(logs, torch.ones(3).to(device))
    assert fast.explain().replayed == 0
    assert "a backward pass inside goes on outside" in str(fast.explain())
