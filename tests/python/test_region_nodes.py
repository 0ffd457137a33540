"""What begins inside a call that may be one node of autograd's: eager's gradients, or a reason.

A replayed call has no graph but its node, so that nothing may hang on the recorded one.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import reprise
import torch
from torch import nn
from torch.autograd import forward_ad, graph
from torch.library import custom_op
from torch.utils import checkpoint as checkpoints
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from watching import assert_same_bits

CALLS = 10
WIDTH = 4

HOOKS = "hooks of saved tensors"
NODES = "operators have nodes of their own: "


class Net(nn.Module):
    """Two layers, and what a test does between them."""

    def __init__(self, between: Callable[[Net, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, WIDTH)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.between(self, x))
        return result

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.first(x))


def saved(by: float = 1.0) -> contextlib.AbstractContextManager[Any]:
    """Hooks that are seen in the gradients, if they are called."""
    return graph.saved_tensors_hooks(lambda x: x * 1, lambda x: x * by)


def under(context: Callable[[], Any]) -> Callable[[Net, torch.Tensor], torch.Tensor]:
    """The first layer, and no other one."""

    def between(net: Net, x: torch.Tensor) -> torch.Tensor:
        with context():
            return net.inner(x)

    return between


def within_others(net: Net, x: torch.Tensor) -> torch.Tensor:
    with saved():
        with saved(2.0):
            x = net.inner(x)
        return x.sin()


def where_nothing_is_saved(net: Net, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), saved(2.0):
        y = net.inner(x)
    with saved(2.0):
        pass
    return net.inner(x) + y


def of_one_saved_tensor(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.inner(x)
    node: Any = y.grad_fn
    node._raw_saved_result.register_hooks(lambda x: x * 1, lambda x: x * 2)
    return y


def selective(net: Net, x: torch.Tensor) -> torch.Tensor:
    def contexts() -> Any:
        keep = [torch.ops.aten.addmm.default]
        return checkpoints.create_selective_checkpoint_contexts(keep)

    result: torch.Tensor = checkpoint(
        net.inner, x, use_reentrant=False, context_fn=contexts
    )
    return result


class Tripled(torch.autograd.Function):
    """Its gradient is not what its operators would give."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        gradient: torch.Tensor = 3 * given * x
        return gradient


@custom_op("reprise_tests::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * x


tripled.register_autograd(
    lambda ctx, given: 3 * given * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def hooked(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.inner(x)
    y.register_hook(lambda given: given * 2)
    return y.sin()


def retained(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.inner(x)
    y.retain_grad()
    return y.sin()


def hooked_together(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.inner(x)
    z = y.sin()
    graph.register_multi_grad_hook([y, z], lambda _: None)
    return z


def hooked_at_its_node(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.inner(x)
    node: Any = y.grad_fn
    node.register_prehook(lambda given: tuple(each * 2 for each in given))
    return y


def differentiated(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(net.inner(x).sum(), x)
    return gradient


def differentiable(net: Net, x: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad(net.inner(x).sum(), x, create_graph=True)
    return gradient


def of_a_transform(net: Net, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.func.grad(lambda x: net.inner(x).sum())(x)
    return result


def of_a_vjp(net: Net, x: torch.Tensor) -> torch.Tensor:
    result, back = torch.func.vjp(net.inner, x)
    (gradient,) = back(torch.ones_like(result))
    return gradient


def with_a_tangent(net: Net, x: torch.Tensor) -> torch.Tensor:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        primal, tangent = forward_ad.unpack_dual(net.inner(dual))
        assert tangent is not None
        return primal + tangent


class Doubling(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.tanh.default else result


class Case(NamedTuple):
    """What is done between the layers, and why a call is not one node.

    Empty: it is one. `replayed`: its operators have nodes of their own, and it is replayed.
    """

    between: Callable[[Net, torch.Tensor], torch.Tensor]
    reason: str
    replayed: bool = False


CASES = {
    "hooks": Case(under(saved), HOOKS),
    "hooks_that_change": Case(under(lambda: saved(2.0)), HOOKS),
    "hooks_in_hooks": Case(within_others, HOOKS),
    "on_the_host": Case(under(graph.save_on_cpu), HOOKS),
    "nothing_is_saved": Case(where_nothing_is_saved, ""),
    "no_hooks_allowed": Case(
        under(lambda: graph.disable_saved_tensors_hooks("none here")),
        NODES + HOOKS + " are disabled",
        replayed=True,
    ),
    "of_one_saved_tensor": Case(of_one_saved_tensor, "what autograd has saved"),
    "mode": Case(under(Doubling), "a dispatch mode"),
    "checkpoint": Case(
        lambda net, x: checkpoint(net.inner, x, use_reentrant=False), HOOKS
    ),
    "checkpoint_dropout": Case(
        lambda net, x: checkpoint(
            lambda x: torch.dropout(net.inner(x), 0.5, True), x, use_reentrant=False
        ),
        HOOKS,
    ),
    "checkpoint_reentrant": Case(
        lambda net, x: checkpoint(net.inner, net.last(x), use_reentrant=True),
        "a torch.autograd.Function",
    ),
    "checkpoint_selective": Case(selective, "a dispatch mode"),
    "function": Case(lambda net, x: Tripled.apply(net.first(x)), "autograd.Function"),
    "custom_op": Case(
        lambda net, x: tripled(net.first(x)), "autograd.Function", replayed=True
    ),
    "hook": Case(hooked, "hooks are set on tensors inside"),
    "retain_grad": Case(retained, "hooks are set on tensors inside"),
    "multi_grad_hook": Case(hooked_together, "hooks are set on tensors inside"),
    "node_hook": Case(hooked_at_its_node, "hooks are set on tensors inside"),
    "grad": Case(differentiated, "an output has a history still"),
    "create_graph": Case(differentiable, "an output has a history still"),
    "func_grad": Case(of_a_transform, "an output has a history still"),
    "func_vjp": Case(of_a_vjp, "an output has a history still"),
    "func_vmap": Case(lambda net, x: torch.func.vmap(net.inner)(x), ""),
    "tangent": Case(with_a_tangent, "forward-mode differentiation"),
    "anomaly": Case(under(torch.autograd.detect_anomaly), "anomaly detection"),
    "autocast": Case(
        lambda net, x: under(lambda: torch.autocast("cpu", torch.bfloat16))(
            net, x
        ).float(),
        "",
    ),
}


def trained(net: Any, around: Callable[[], Any]) -> list[Any]:
    """Results and gradients of all calls."""
    found: list[Any] = []
    generator = torch.Generator().manual_seed(0)
    for call in range(CALLS):
        torch.manual_seed(call)
        net.zero_grad()
        x = torch.randn(3, WIDTH, generator=generator).requires_grad_()
        with around():
            result = net(x)
        result.sum().backward()
        found += [result.detach(), *(each.grad for each in net.parameters())]
        found += [] if x.grad is None else [x.grad]
    return found


def nets(between: Callable[[Net, torch.Tensor], torch.Tensor]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    plain = Net(between)
    return plain, reprise.region(copy.deepcopy(plain))


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", CASES)
def test_what_begins_inside(name: str) -> None:
    between, reason, replayed = CASES[name]
    plain, fast = nets(between)
    expected = trained(plain, contextlib.nullcontext)
    with reprise.session("cpu"):
        found = trained(fast, contextlib.nullcontext)
    assert_same_bits(found, expected)
    report = fast.explain()
    assert any(reason in each for each in report.reasons) or not reason, str(report)
    assert (report.replayed > 0) == (replayed or not reason), str(report)
    assert (report.backward > 0) == (not reason), str(report)


@pytest.mark.parametrize("name", ["hooks_that_change", "checkpoint"])
def test_the_place_where_hooks_begin_is_named(name: str) -> None:
    _, fast = nets(CASES[name].between)
    trained(fast, contextlib.nullcontext)
    ((reason, (_, place)),) = fast.explain().reasons.items()
    assert HOOKS in reason
    assert "test_region_nodes.py" in place or "checkpoint.py" in place


@pytest.mark.parametrize(
    ("name", "replayed"),
    [("nothing_is_saved", True), ("hooks_that_change", False), ("checkpoint", False)],
)
def test_what_begins_inside_beside_hooks_outside(name: str, replayed: bool) -> None:
    """Hooks outside are another's business; those inside are theirs all the same."""
    plain, fast = nets(CASES[name].between)
    around: Callable[[], Any] = lambda: saved(3.0)  # noqa: E731
    assert_same_bits(trained(fast, around), trained(plain, around))
    report = fast.explain()
    assert (report.replayed > 0) == replayed, str(report)
    assert report.backward == 0


def test_hooks_disabled_outside() -> None:
    """Then none may be set round a call to record it, either."""
    plain, fast = nets(CASES["nothing_is_saved"].between)
    plain.between = fast.between = Net.inner
    around: Callable[[], Any] = lambda: graph.disable_saved_tensors_hooks("none")  # noqa: E731
    assert_same_bits(trained(fast, around), trained(plain, around))
    assert fast.explain().replayed > 0
    assert fast.explain().backward == 0


@pytest.mark.parametrize("name", ["func_grad", "hooks_that_change", "checkpoint"])
def test_what_begins_inside_in_later_calls(name: str) -> None:
    """Where calls before were one node: also what is an error where hooks are set."""
    torch.manual_seed(0)
    other = CASES[name].between

    def turning(net: Any, x: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = other(net, x) if turned.item() else net.inner(x)
        return net.last(y)  # type: ignore[no-any-return]

    plain = Net(Net.inner)
    ours = copy.deepcopy(plain)
    fast: Any = reprise.region(lambda x, turned: turning(ours, x, turned))
    for call in range(2 * CALLS):
        x, turned = torch.randn(3, WIDTH), torch.tensor(call >= CALLS)
        for net, function in (
            (ours, fast),
            (plain, lambda x, turned: turning(plain, x, turned)),
        ):
            net.zero_grad()
            torch.manual_seed(call)
            function(x, turned).sum().backward()
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            assert_same_bits(a.grad, b.grad, f"call {call}")
        if call == CALLS - 1:
            assert fast.explain().backward > 0, str(fast.explain())
    assert len(fast.explain().reasons) > 0


def stepping(net: Net, context: Callable[[], Any]) -> Callable[..., torch.Tensor]:
    def step(x: torch.Tensor) -> torch.Tensor:
        for each in net.parameters():
            each.grad = None
        with context():
            y = net.inner(x)
            y.mul_(
                y.detach()
            ) if context is graph.allow_mutation_on_saved_tensors else y
            loss = net.last(y).square().mean()
            loss.backward()
        return loss.detach()

    return step


@pytest.mark.parametrize(
    ("context", "replayed"),
    [
        (lambda: saved(2.0), True),
        (graph.allow_mutation_on_saved_tensors, False),
    ],
)
def test_both_passes_inside(context: Callable[[], Any], replayed: bool) -> None:
    """What hooks call in them is calls like others; a mode's Python is not seen."""
    torch.manual_seed(0)
    plain = Net(Net.inner)
    ours = copy.deepcopy(plain)
    fast: Any = reprise.region(stepping(ours, context))
    eager = stepping(plain, context)
    for _ in range(CALLS):
        x = torch.randn(3, WIDTH)
        assert_same_bits(fast(x), eager(x))
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            assert_same_bits(a.grad, b.grad)
    assert (fast.explain().replayed > 0) == replayed, str(fast.explain())
