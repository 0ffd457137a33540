"""Calls that are replayed without their Python: eager's bits, or the callable itself."""

from __future__ import annotations

import collections
import copy
import ctypes
import dataclasses
import functools
import gc
import logging
import pickle
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import reprise
import torch
from models import Doubled
from reprise.guards.guard import State
from reprise.guards.walk import Walk
from reprise.guards.watch import Watch
from torch import nn
from torch.nn import functional
from watching import assert_same_bits, in_threads, replaying

CALLS = 8  # the fourth is replayed
PERIOD = 256  # one call in so many is sampled


def perceptron(device: str, dropout: float = 0.0) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 4)
    ).to(device)


def batch(device: str, rows: int = 8) -> torch.Tensor:
    return torch.randn(rows, 16, device=device)


def check_calls(
    fast: Any,
    plain: Callable[..., Any],
    arguments: Callable[[], tuple[Any, ...]],
    calls: int = CALLS,
    replayed: int = CALLS - 4,
) -> None:
    """Each call gives eager's bits and leaves eager's random numbers."""
    before = fast.explain().replayed
    for call in range(calls):
        given = arguments()
        torch.manual_seed(call)
        expected = plain(*given)
        drawn = torch.rand(4)
        torch.manual_seed(call)
        found = fast(*given)
        assert_same_bits([*_all(found), torch.rand(4)], [*_all(expected), drawn])
    assert fast.explain().replayed - before >= replayed, str(fast.explain())


def _all(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# --- What is replayed ---


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_module(device: str, mode: Callable[[], Any]) -> None:
    net = perceptron(device, dropout=0.3)
    fast = reprise.region(net)
    with mode():
        check_calls(fast, net, lambda: (batch(device),))
        fast.eval()
        check_calls(fast, net, lambda: (batch(device),))
        fast.train()  # what was recorded before is still good
        check_calls(fast, net, lambda: (batch(device),), replayed=CALLS)


def test_plans_replay_what_a_region_calls(device: str) -> None:
    net = perceptron(device)
    fast = reprise.region(net)
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        for _ in range(10):
            fast(batch(device))
            assert session.wait(60)
        with replaying(session):
            check_calls(fast, lambda x: _plainly(net, x), lambda: (batch(device),))


def _plainly(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with reprise.session(enabled=False):
        out: torch.Tensor = net(x)
        return out


def test_shapes_dtypes_and_numbers_have_variants_of_their_own(device: str) -> None:
    @reprise.region
    def fn(x: torch.Tensor, by: float, times: int, flag: bool) -> torch.Tensor:
        y = x * by
        for _ in range(times):
            y = (y + 1).relu()
        return -y if flag else y

    def arguments(
        dtype: torch.dtype, rows: int, times: int, flag: bool
    ) -> tuple[Any, ...]:
        x = torch.randn(rows, 3, device=device, dtype=dtype)
        return x, 0.3, times, flag

    for dtype in (torch.float32, torch.float64):
        for rows, times, flag in ((4, 1, True), (5, 2, True), (5, 2, False)):
            check_calls(
                fn,
                fn.__wrapped__,
                functools.partial(arguments, dtype, rows, times, flag),
            )


def test_number_that_varies_is_given_to_the_operators(device: str) -> None:
    numbers = iter(range(1, 1000))
    fn = reprise.region(lambda x, by: x * by - by)
    check_calls(
        fn,
        lambda x, by: x * by - by,
        lambda: (batch(device), 0.1 * next(numbers)),
        30,
        26,
    )
    assert fn.explain().variants == 1


def test_number_that_python_computes_with_makes_variants_and_then_stops(
    device: str,
) -> None:
    numbers = iter(range(1, 1000))
    fn = reprise.region(lambda x, by: x * (by + 1))
    plain = fn.__wrapped__
    check_calls(fn, plain, lambda: (batch(device), 0.1 * next(numbers)), 30, 0)
    assert any("'other' is" in reason for reason in fn.explain().reasons)
    recorded = fn.explain().recorded
    check_calls(fn, plain, lambda: (batch(device), 0.1 * next(numbers)), 10, 0)
    assert fn.explain().recorded == recorded


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclasses.dataclass
class Output:
    value: torch.Tensor
    name: str
    more: list[torch.Tensor]


def test_structures_of_arguments_and_results(device: str) -> None:
    @reprise.region
    def fn(pair: Pair, *, given: dict[str, Any], none: None = None) -> Any:
        total = pair.first + pair.second
        out = Output(total, given["name"], [total * 2, pair.first])
        return {"out": out, "pair": Pair(total - 1, total), "number": 3, "none": none}

    for _ in range(CALLS):
        pair = Pair(batch(device), batch(device))
        found = fn(pair, given={"name": "n", "scale": [1, (2, 3)]})
        expected = fn.__wrapped__(pair, given={"name": "n", "scale": [1, (2, 3)]})
        assert list(found) == list(expected)
        assert type(found["out"]) is Output and found["out"].name == "n"
        assert found["out"].more[1] is pair.first
        assert (
            type(found["pair"]) is Pair and found["pair"].second is found["out"].value
        )
        assert (found["number"], found["none"]) == (3, None)
        assert_same_bits(list(found["pair"]), list(expected["pair"]))
    assert fn.explain().replayed >= CALLS - 4, str(fn.explain())


def test_by_name_is_not_in_order(device: str) -> None:
    fn = reprise.region(lambda a, b: a - b)
    for _ in range(CALLS):
        x, y = batch(device), batch(device)
        assert torch.equal(fn(x, b=y), x - y)
        assert torch.equal(fn(b=x, a=y), y - x)
        assert torch.equal(fn(x, y), x - y)


def test_same_tensor_twice_is_another_variant(device: str) -> None:
    def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * b

    fn = reprise.region(plain)
    for call in range(2 * CALLS):
        x, y = batch(device), batch(device)
        given = (x, x) if call % 2 else (x, y)
        other = x.clone()
        expected = plain(other, other if call % 2 else y)
        assert_same_bits(fn(*given), expected)
        assert_same_bits(x, other)
    assert fn.explain().replayed > CALLS


def test_views_and_aliases_are_those_of_eager(device: str) -> None:
    fn = reprise.region(lambda x: (x[1:], x, x.t(), x + 1))
    with torch.no_grad():
        for _ in range(CALLS):
            x = batch(device)
            view, same, turned, new = fn(x)
            assert same is x and view._base is x and turned.data_ptr() == x.data_ptr()
            view.zero_()
            assert x[1:].eq(0).all() and not new[1:].eq(1).all()
            assert x._version == 1
    assert fn.explain().replayed >= CALLS - 4


def test_outputs_last_as_long_as_they_are_held(device: str) -> None:
    net = perceptron(device)
    fast = reprise.region(net)
    inputs = [batch(device) for _ in range(20)]
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        found = []
        for x in inputs:
            found.append(fast(x))
            session.wait(60)
        for x, out in zip(inputs, found, strict=True):
            assert_same_bits(out, net(x))
    assert fast.explain().replayed >= 14


def test_constants_of_the_host_are_made_anew(device: str) -> None:
    @reprise.region
    def fn(x: torch.Tensor) -> torch.Tensor:
        table = torch.tensor([1.0, 2.0, 3.0]).to(device)
        table += 1
        return x[:, :3] * table

    check_calls(fn, fn.__wrapped__, lambda: (batch(device),))


def test_random_numbers_in_place_writes_and_lists(device: str) -> None:
    def plain(x: torch.Tensor, others: list[torch.Tensor]) -> list[torch.Tensor]:
        y = functional.dropout(x, 0.5) + torch.randn_like(x)
        torch._foreach_mul_(others, 2.0)
        return [y, torch.cat(others), torch.stack([y, y]).index_select(0, index)]

    index = torch.tensor([1, 0], device=device)
    fn = reprise.region(plain)
    for call in range(CALLS):
        x, others = batch(device), [batch(device), batch(device)]
        copies = [other.clone() for other in others]
        torch.manual_seed(call)
        expected = plain(x, copies)
        torch.manual_seed(call)
        assert_same_bits(fn(x, others), expected)
        assert_same_bits(others, copies)
    assert fn.explain().replayed >= CALLS - 4


def test_errors_are_those_of_eager(device: str) -> None:
    fn = reprise.region(lambda x, i: x.gather(0, i))
    for _ in range(CALLS):
        fn(batch("cpu"), torch.zeros(1, 16, dtype=torch.long))
    with pytest.raises(RuntimeError, match="out of bounds"):
        fn(batch("cpu"), torch.full((1, 16), 99))
    assert fn.explain().replayed >= CALLS - 3
    check_calls(fn, lambda x, i: x.gather(0, i), lambda: (batch(device), index(device)))


def index(device: str) -> torch.Tensor:
    return torch.randint(8, (2, 16), device=device)


def test_exception_of_the_callable_leaves_it_as_it_was(device: str) -> None:
    @reprise.region
    def fn(x: torch.Tensor, fail: bool) -> torch.Tensor:
        y = x + 1
        if fail:
            raise KeyError("mine")
        return y

    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            fn(batch(device), True)
    check_calls(fn, lambda x, fail: x + 1, lambda: (batch(device), False))


def test_value_that_is_read_early_makes_variants(device: str) -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y.relu() + x.sum() if (y.sum() > 0) else y - 1

    fast = reprise.region(plain)
    signs = torch.randint(2, (4 * CALLS,)).tolist()
    check_calls(
        fast,
        plain,
        lambda: (batch(device).abs() * (1 if signs.pop() else -1),),
        len(signs),
        len(signs) - 6,
    )
    assert fast.explain().variants == 2


def test_step_that_reads_early(device: str) -> None:
    nets = [perceptron(device)]
    nets.append(copy.deepcopy(nets[0]))
    optimizers = [adamw(net) for net in nets]

    def step(which: int, x: torch.Tensor) -> torch.Tensor:
        optimizers[which].zero_grad()
        scale = 2 if (x[0, 0] > 0).item() else 3
        loss = nets[which](x).square().mean() * scale
        loss.backward()
        optimizers[which].step()
        return loss

    fast = reprise.region(lambda x: step(0, x))
    for _ in range(5 * CALLS):
        x = batch(device)
        assert_same_bits(fast(x).detach(), step(1, x).detach())
        assert_same_bits(gradients(nets[0]), gradients(nets[1]))
    assert_same_bits(list(nets[0].parameters()), list(nets[1].parameters()))
    assert fast.explain().replayed >= 3 * CALLS, str(fast.explain())


def test_value_that_is_read_behind_an_effect_is_refused(device: str) -> None:
    total = torch.zeros((), device=device)

    def plain(x: torch.Tensor) -> torch.Tensor:
        total.add_(1)
        return x + 1 if total > 3 else x - 1

    fast = reprise.region(plain)
    for call in range(CALLS):
        x = batch(device)
        assert torch.equal(fast(x), x + 1 if call >= 3 else x - 1)
    assert "hands data to the host" in str(fast.explain())


# --- Modules ---


def test_module_stays_one(device: str) -> None:
    net = perceptron(device)
    fast = reprise.region(net)
    assert isinstance(fast, nn.Sequential)
    assert list(fast.state_dict()) == list(net.state_dict())
    assert [id(p) for p in fast.parameters()] == [id(p) for p in net.parameters()]
    fast.eval()
    assert not net.training and not net[0].training
    outer = nn.Sequential(fast, nn.Linear(4, 2).to(device))
    assert len(list(outer.parameters())) == 6
    with torch.no_grad():
        check_calls(fast, net, lambda: (batch(device),))
        twin = copy.deepcopy(fast)
        assert twin[0].weight is not net[0].weight
        check_calls(twin, net, lambda: (batch(device),))
        loaded = pickle.loads(pickle.dumps(fast))
        check_calls(loaded, net, lambda: (batch(device),))


def test_method(device: str) -> None:
    class Model:
        def __init__(self, by: float) -> None:
            self.weight = torch.full((16,), by, device=device)

        @reprise.region
        def scale(self, x: torch.Tensor) -> torch.Tensor:
            """Of it."""
            return x * self.weight

    one, two = Model(2.0), Model(3.0)
    assert Model.scale.__doc__ == "Of it."
    for _ in range(CALLS):
        x = batch(device)
        assert torch.equal(one.scale(x), x * 2) and torch.equal(two.scale(x), x * 3)
    assert one.scale.explain().replayed >= CALLS - 4


GLOBAL_HOOKS: list[Any] = []


def replace(net: nn.Sequential) -> None:
    net[0].weight = nn.Parameter(torch.randn_like(net[0].weight))


def other_data(net: nn.Sequential) -> None:
    net[0].weight.data = torch.randn_like(net[0].weight)


def transposed_data(net: nn.Sequential) -> None:
    net[0].weight.data = torch.randn_like(net[0].weight.t()).t()


def load(net: nn.Sequential) -> None:
    net.load_state_dict({k: torch.randn_like(v) for k, v in net.state_dict().items()})


def assign(net: nn.Sequential) -> None:
    state = {k: torch.randn_like(v) for k, v in net.state_dict().items()}
    net.load_state_dict(state, assign=True)


def to_double(net: nn.Sequential) -> None:
    net.double()


def freeze(net: nn.Sequential) -> None:
    net.requires_grad_(False)


def swap_layer(net: nn.Sequential) -> None:
    net[1] = nn.Tanh()


def hook(net: nn.Sequential) -> None:
    net[0].register_forward_hook(lambda module, given, out: out + 1)


def global_hook(net: nn.Sequential) -> None:
    def add(module: nn.Module, given: Any, out: Any) -> Any:
        return out + 1 if module is net[0] else out

    GLOBAL_HOOKS.append(nn.modules.module.register_module_forward_hook(add))


def attribute(net: nn.Sequential) -> None:
    net[2].p = 1.0


def in_place(net: nn.Sequential) -> None:
    with torch.no_grad():
        net[0].weight.add_(1)


@pytest.mark.parametrize(
    "change",
    [
        replace,
        other_data,
        transposed_data,
        load,
        assign,
        to_double,
        freeze,
        swap_layer,
        hook,
        global_hook,
        attribute,
        in_place,
    ],
)
@pytest.mark.parametrize("grad", [False, True])
def test_change_of_the_module_is_seen(
    device: str, change: Callable[[nn.Sequential], None], grad: bool
) -> None:
    net = perceptron(device, dropout=0.5)
    fast = reprise.region(net)
    with torch.set_grad_enabled(grad):
        check_calls(fast, net, lambda: (batch(device),))
        change(net)
        check_calls(fast, net, lambda: (batch(device).to(net[0].weight.dtype),))
    while GLOBAL_HOOKS:
        GLOBAL_HOOKS.pop().remove()


def test_modes_and_switches_are_seen(device: str) -> None:
    net = perceptron(device)
    fast = reprise.region(net)
    with torch.no_grad():
        check_calls(fast, net, lambda: (batch(device),))
        with torch.autocast(device, dtype=torch.bfloat16):
            check_calls(fast, net, lambda: (batch(device),))
        check_calls(fast, net, lambda: (batch(device),), replayed=CALLS)
    check_calls(fast, net, lambda: (batch(device),))
    with torch.inference_mode():
        check_calls(fast, net, lambda: (batch(device),))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        check_calls(fast, net, lambda: (batch(device),))
    finally:
        torch.set_float32_matmul_precision(before)


# --- Gradients ---


def gradients(net: nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in net.parameters() if p.grad is not None]


@pytest.mark.parametrize("accumulate", [False, True])
def test_differentiable(device: str, accumulate: bool) -> None:
    net = perceptron(device, dropout=0.3)
    twin = copy.deepcopy(net)
    fast = reprise.region(net)
    seen: list[torch.Tensor] = []
    net[0].weight.register_hook(lambda grad: seen.append(grad))
    for call in range(2 * CALLS):
        x = batch(device).requires_grad_()
        y = x.detach().clone().requires_grad_()
        torch.manual_seed(call)
        (twin(y).square().sum() + twin[0].weight.sum()).backward()
        torch.manual_seed(call)
        (fast(x).square().sum() + net[0].weight.sum()).backward()
        assert_same_bits([*gradients(net), x.grad], [*gradients(twin), y.grad])
        if not accumulate:
            net.zero_grad()
            twin.zero_grad()
    assert len(seen) == 2 * CALLS
    assert fast.explain().replayed >= CALLS, str(fast.explain())


def test_backward_twice_and_through_backward(device: str) -> None:
    fast = reprise.region(lambda x: (x.sin() * x).sum())
    for _ in range(CALLS):
        x = batch(device).requires_grad_()
        y = fast(x)
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        expected = 2 * x.cos() - x * x.sin()
        assert torch.allclose(second, expected, atol=1e-5)
        y = fast(x)
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
    assert fast.explain().replayed >= CALLS


def test_checkpoint_round_it(device: str) -> None:
    from torch.utils.checkpoint import checkpoint

    net = perceptron(device, dropout=0.3)
    twin = copy.deepcopy(net)
    fast = reprise.region(net)
    for call in range(CALLS):
        for model, module in ((fast, net), (twin, twin)):
            torch.manual_seed(call)
            module.zero_grad()
            x = torch.ones(8, 16, device=device).requires_grad_()
            checkpoint(model, x, use_reentrant=False).sum().backward()
        assert_same_bits(gradients(net), gradients(twin))
    # What is computed again ends early, by an exception.
    assert fast.explain().replayed >= CALLS - 4


def with_hook(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.register_hook(lambda grad: grad * 5)
    return y + 1


def with_leaf(x: torch.Tensor) -> torch.Tensor:
    y = (x.detach() * 2).requires_grad_()
    return y * 3 + x


@pytest.mark.parametrize("fn", [Doubled.apply, with_hook, with_leaf])
def test_history_that_python_makes_is_left_to_python(
    device: str, fn: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        return fn(x * 1) + 1

    fast = reprise.region(plain)
    for _ in range(CALLS):
        x = batch(device).requires_grad_()
        y = x.detach().clone().requires_grad_()
        fast(x).sum().backward()
        plain(y).sum().backward()
        assert_same_bits(x.grad, y.grad)
    assert fast.explain().replayed == 0 and fast.explain().reasons


# --- Whole steps ---


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def adamw(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)


@pytest.mark.parametrize("make", [sgd, adamw])
@pytest.mark.parametrize("scheduled", [False, True])
def test_whole_step(
    device: str, make: Callable[[nn.Module], Any], scheduled: bool
) -> None:
    torch.manual_seed(3)
    nets = [perceptron(device, dropout=0.2)]
    nets = [copy.deepcopy(nets[0]) for _ in range(2)]
    optimizers = [make(net) for net in nets]

    def step_of(which: int) -> Callable[..., torch.Tensor]:
        net, optimizer = nets[which], optimizers[which]

        def step(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
            return loss

        return step

    plain, fast = step_of(0), reprise.region(step_of(1))
    decays = [torch.optim.lr_scheduler.StepLR(each, 5, 0.5) for each in optimizers]
    for call in range(50):
        x, target = batch(device), torch.randint(4, (8,), device=device)
        torch.manual_seed(call)
        expected = plain(x, target)
        torch.manual_seed(call)
        found = fast(x, target)
        assert torch.equal(found, expected)
        if scheduled:
            for decay in decays:
                decay.step()
    states = [
        [*net.parameters(), *gradients(net), *_state(optimizer)]
        for net, optimizer in zip(nets, optimizers, strict=True)
    ]
    assert_same_bits(states[1], states[0])
    assert [p._version for p in nets[1].parameters()] == [
        p._version for p in nets[0].parameters()
    ]
    assert fast.explain().replayed >= 40, str(fast.explain())


def _state(optimizer: Any) -> list[torch.Tensor]:
    return [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ]


def test_gradients_that_accumulate_over_steps(device: str) -> None:
    net = perceptron(device)
    twin = copy.deepcopy(net)

    def add(model: nn.Module, x: torch.Tensor) -> None:
        model(x).square().sum().backward()

    fast = reprise.region(lambda x: add(net, x))
    for call in range(4 * CALLS):
        x = batch(device)
        fast(x)
        add(twin, x)
        assert_same_bits(gradients(net), gradients(twin))
        if call % 4 == 3:
            net.zero_grad()
            twin.zero_grad()
    assert fast.explain().replayed >= CALLS, str(fast.explain())


def test_optimizer_whose_numbers_come_from_nowhere_is_refused(device: str) -> None:
    net = perceptron(device)
    twin = copy.deepcopy(net)
    optimizers = [
        torch.optim.NAdam(each.parameters(), lr=0.01, foreach=False)
        for each in (net, twin)
    ]

    def step(model: nn.Module, optimizer: Any, x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    fast = reprise.region(lambda x: step(net, optimizers[0], x))
    for _ in range(CALLS):
        x = batch(device)
        fast(x)
        step(twin, optimizers[1], x)
    assert_same_bits(list(net.parameters()), list(twin.parameters()))
    report = fast.explain()
    assert report.replayed == 0
    assert "hands data to the host" in str(report) and "capturable=True" in str(report)
    assert "test_regions.py" in str(report)


# --- What is not replayed, and why ---


def reads(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum().item() > 0 else x * 3


def uses_address(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return y * (y.data_ptr() % 2 + 2)


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (reads, "hands data to the host"),
        (uses_address, "without an op"),
    ],
)
def test_what_python_reads_is_refused(
    device: str, fn: Callable[[torch.Tensor], torch.Tensor], reason: str
) -> None:
    with reprise.session(device):
        fast = reprise.region(fn)
        check_calls(fast, fn, lambda: (batch(device),), replayed=0)
    assert fast.explain().replayed == 0
    assert reason in str(fast.explain()) and "test_regions.py" in str(fast.explain())


class Cache:
    """Tensors that a callable writes, in a list of objects, and a number."""

    def __init__(self, device: str, layers: int = 2) -> None:
        self.layers = [Layer(device) for _ in range(layers)]
        self.scale = 1.0
        self.taken = 0


class Layer:
    def __init__(self, device: str) -> None:
        self.sums = torch.zeros(16, device=device)


def accumulate(x: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, Cache]:
    for layer in cache.layers:
        layer.sums.add_(x.sum(0))
        x = x + layer.sums * cache.scale
    return x, cache


def test_object_among_the_arguments(device: str) -> None:
    """What it holds is looked at; it is handed back, and not kept."""
    fast: Any = reprise.region(accumulate)
    ours, plain = Cache(device), Cache(device)

    def call() -> None:
        x = batch(device)
        found, cache = fast(x, ours)
        assert cache is ours
        expected = accumulate(x, plain)[0]
        sums = [[layer.sums for layer in each.layers] for each in (ours, plain)]
        assert_same_bits([found, *sums[0]], [expected, *sums[1]])

    def turn(replayed: int) -> None:
        before = fast.explain().replayed
        for _ in range(CALLS):
            call()
        assert fast.explain().replayed - before >= replayed, str(fast.explain())

    turn(CALLS - 4)
    for each in (ours, plain):
        each.scale = 2.0
    turn(CALLS - 4)
    for each in (ours, plain):
        each.layers[1].sums = torch.ones(16, device=device)
    turn(CALLS - 4)
    for each in (ours, plain):
        each.layers.append(Layer(device))
    turn(CALLS - 4)
    gone = weakref.ref(ours)
    sums = weakref.ref(ours.layers[0].sums)
    ours, plain = Cache(device), Cache(device)
    gc.collect()
    assert gone() is None and sums() is None and len(fast._objects) == 0
    turn(CALLS - 4)


def test_object_that_the_callable_changes(device: str) -> None:
    def counts(x: torch.Tensor, cache: Cache) -> torch.Tensor:
        cache.taken += 1
        return x * cache.taken

    fast: Any = reprise.region(counts)
    cache = Cache(device)
    for call in range(CALLS):
        x = batch(device)
        assert torch.equal(fast(x, cache), x * (call + 1))
    assert "it changes Cache.taken" in str(fast.explain())


class Holder:
    """An object of the program's; its attributes are what it is made with."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Answers(Holder):
    """It has a value for every name."""

    def __getattr__(self, name: str) -> Any:
        return None


class Doubles(Holder):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Triples(Doubles):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


class Comparable(type):
    """Its classes cannot be keys of a dictionary."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        return cls is other


class OfComparable(Holder, metaclass=Comparable):
    pass


def scaled(factors: dict[str, float], x: torch.Tensor) -> torch.Tensor:
    return x * factors["x"]


def folded(x: torch.Tensor, of: Any) -> torch.Tensor:
    for each in of.parts.values():
        x = (x + each) * each
    return x


class Number(int):
    factor = 2


def is_true(key: Any) -> bool:
    return key is True


def doubles_unless(off: set[str]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x if off else x * 2


def ones_and_threes() -> dict[str, torch.Tensor]:
    return {"ones": torch.ones(2), "threes": torch.full((2,), 3.0)}


def put_last(of: Any) -> None:
    of.parts["ones"] = of.parts.pop("ones")


def replace_attributes(of: Any) -> None:
    of.__dict__ = {"factor": 3}


def make_triples(of: Any) -> None:
    of.__class__ = Triples


class Changed(NamedTuple):
    """An object, what a region computes of it, and a change of it."""

    make: Callable[[], Any]
    fn: Callable[[torch.Tensor, Any], torch.Tensor]
    change: Callable[[Any], None]


CHANGED = {
    "attribute": Changed(
        lambda: Holder(factor=2),
        lambda x, of: x * of.factor,
        lambda of: setattr(of, "factor", 3),
    ),
    "answers every name": Changed(
        lambda: Answers(factor=2),
        lambda x, of: x * of.factor,
        lambda of: setattr(of, "factor", 3),
    ),
    "all its attributes": Changed(
        lambda: Holder(factor=2), lambda x, of: x * of.factor, replace_attributes
    ),
    "its class": Changed(Doubles, lambda x, of: of(x), make_triples),
    "class of what it holds": Changed(
        lambda: Holder(inner=Doubles()),
        lambda x, of: of.inner(x),
        lambda of: make_triples(of.inner),
    ),
    "arguments of a partial": Changed(
        lambda: Holder(fn=functools.partial(scaled, {"x": 2.0})),
        lambda x, of: of.fn(x),
        lambda of: of.fn.args[0].update(x=3.0),
    ),
    "order of a dict": Changed(
        lambda: Holder(parts=ones_and_threes()), folded, put_last
    ),
    "order of an OrderedDict": Changed(
        lambda: Holder(parts=collections.OrderedDict(ones_and_threes())),
        folded,
        lambda of: of.parts.move_to_end("ones"),
    ),
    "keywords of a partial": Changed(
        lambda: Holder(fn=functools.partial(scaled, factors={"x": 2.0})),
        lambda x, of: of.fn(x=x),
        lambda of: of.fn.keywords.update(factors={"x": 3.0}),
    ),
    "object of a method": Changed(
        lambda: Holder(get={"x": 2.0}.get),
        lambda x, of: x * of.get("x"),
        lambda of: of.get.__self__.update(x=3.0),
    ),
    "closure of a function": Changed(
        lambda: Holder(fn=doubles_unless(set())),
        lambda x, of: of.fn(x),
        lambda of: of.fn.__closure__[0].cell_contents.add("off"),
    ),
    "attribute of a number": Changed(
        lambda: Holder(number=Number(2)),
        lambda x, of: x * of.number.factor,
        lambda of: setattr(of.number, "factor", 3),
    ),
    "key of a dict": Changed(
        lambda: Holder(parts={Doubles(): 1}),
        lambda x, of: next(iter(of.parts))(x),
        lambda of: make_triples(next(iter(of.parts))),
    ),
    "type of a key": Changed(
        lambda: Holder(parts={1: 2}),
        lambda x, of: x + 1 if True in map(is_true, of.parts) else x,
        lambda of: setattr(of, "parts", {True: 2}),
    ),
    "set": Changed(
        lambda: Holder(on={"a"}),
        lambda x, of: x * (2 if "b" in of.on else 3),
        lambda of: of.on.add("b"),
    ),
    "tensor in a tuple in a list": Changed(
        lambda: Holder(keys=[(torch.ones(2),)]),
        lambda x, of: x * of.keys[0][0],
        lambda of: of.keys.__setitem__(0, (torch.zeros(2),)),
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_change_of_an_object_among_the_arguments(name: str) -> None:
    case = CHANGED[name]
    fast: Any = reprise.region(case.fn)
    held = case.make()
    for _ in range(2):
        check_calls(fast, case.fn, lambda: (torch.rand(2), held))
        case.change(held)
        found, expected = fast(torch.ones(2), held), case.fn(torch.ones(2), held)
        assert_same_bits(found, expected, str(fast.explain()))


MADE_AGAIN = {
    "list": (lambda: [2.0], lambda of: of.append(3.0)),
    "set": (lambda: {2}, lambda of: of.add(3)),
    "list in a tuple": (lambda: ([2.0],), lambda of: of[0].append(3.0)),
}


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_equal_container_in_place_of_another(name: str) -> None:
    """It is looked at in each call, as the one before was."""
    make, change = MADE_AGAIN[name]

    def count(x: torch.Tensor, of: Any) -> torch.Tensor:
        inner = of.parts[0] if isinstance(of.parts, tuple) else of.parts
        return x * len(inner)

    held = Holder(parts=make())
    fast: Any = reprise.region(count)
    check_calls(fast, count, lambda: (torch.rand(2), held))
    held.parts = make()
    check_calls(fast, count, lambda: (torch.rand(2), held), replayed=1)
    change(held.parts)
    check_calls(fast, count, lambda: (torch.rand(2), held))


class Meta(type):
    """Its classes, and their objects, are nobody's to look at; but for a name."""

    def __getattribute__(cls, name: str) -> Any:
        if name == "__name__":
            return "Private"
        raise RuntimeError("not to be looked at")

    def refuse(cls, *_: Any) -> Any:
        raise RuntimeError("not to be looked at")

    __hash__ = __eq__ = __subclasscheck__ = refuse  # type: ignore[assignment]


class Private(metaclass=Meta):
    def refuse(self, *_: Any) -> Any:
        raise RuntimeError("not to be looked at")

    __getattribute__ = __hash__ = __eq__ = refuse  # type: ignore[assignment]
    __len__ = __iter__ = __bool__ = __repr__ = refuse  # type: ignore[assignment]


@pytest.mark.parametrize("place", ["argument", "closure", "attribute", "key", "global"])
def test_object_that_refuses_to_be_looked_at(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one that it is, and nothing of it is called."""
    made = [object.__new__(Private) for _ in range(2)]
    held = Holder(inner=made[0], table={"a": [made[0]]})
    monkeypatch.setitem(globals(), "PRIVATE", made[0])

    def fn(x: torch.Tensor, of: Any = held) -> torch.Tensor:
        if place == "global":
            return x * 2 if PRIVATE is made[0] else x * 3
        inner = of.table["a"][0] if place == "key" else of.inner
        return x * 2 if inner is made[0] else x * 3

    given = (held,) if place == "argument" else ()
    fast: Any = reprise.region(fn)
    check_calls(fast, fn, lambda: (torch.rand(2), *given))
    held.inner = held.table["a"][0] = made[1]
    monkeypatch.setitem(globals(), "PRIVATE", made[1])
    check_calls(fast, fn, lambda: (torch.rand(2), *given))


PRIVATE: Any = None


class Compares(type):
    """Its classes are nobody's to compare."""

    def refuse(cls, *_: Any) -> Any:
        raise RuntimeError("not to be compared")

    __hash__ = __eq__ = refuse  # type: ignore[assignment]


class PrivateList(list[Any], metaclass=Compares):
    pass


@pytest.mark.parametrize("place", ["argument", "list", "key", "result"])
def test_class_that_refuses_to_be_compared(place: str) -> None:
    """A region says so; the call gives what it gives."""
    made = PrivateList([2.0])
    given: Any = {"list": [made], "key": {"a": made}}.get(place, made)

    def fn(x: torch.Tensor, of: Any) -> Any:
        inner = next(iter(of.values() if place == "key" else of))
        return [x * 2, PrivateList([x * 3])] if place == "result" else x * len([inner])

    fast: Any = reprise.region(fn)
    if place == "result":
        given = [2.0]
    check_calls(fast, fn, lambda: (torch.rand(2), given), replayed=0)
    assert "whose class says what equals it" in str(fast.explain())


def test_long_chain_of_functions() -> None:
    """More of them than Python's stack has room for, if each is followed in turn."""
    source = "\n".join(
        f"def f{k}(x): return f{k + 1}(x) if off else x * 2" for k in range(2000)
    )
    names: dict[str, Any] = {"off": False, "f2000": torch.relu}
    exec(compile(source, "chain.py", "exec"), names)  # a program of many functions
    fast: Any = reprise.region(names["f0"])
    check_calls(fast, names["f0"], lambda: (torch.rand(2),), replayed=0)


class Slotted:
    __slots__ = ("__weakref__", "factor")


class Shadowed(dict[str, float]):
    """Reads its items as attributes."""

    __getattr__ = dict.__getitem__


def slotted() -> Slotted:
    made = Slotted()
    made.factor = 2.0
    return made


class Queue(collections.deque[float]):
    pass


UNKNOWN = {
    "slots": slotted,
    "a dict with attributes": lambda: Shadowed(factor=2.0),
    "its class is no key": lambda: OfComparable(factor=2.0),
}

CHANGING: dict[str, tuple[Any, Any, Any]] = {
    "a queue": (
        collections.deque([2.0]),
        lambda x, of: x * of.inner[0],
        lambda inner: inner.appendleft(3.0),
    ),
    "an array of bytes": (
        bytearray(b"ab"),
        lambda x, of: x * of.inner[0],
        lambda inner: inner.reverse(),
    ),
    "a queue of a type of the program's": (
        Queue([2.0]),
        lambda x, of: x * of.inner[0],
        lambda inner: inner.appendleft(3.0),
    ),
    "a set of what has no value": (
        {(1, 2)},
        lambda x, of: x * len(of.inner),
        lambda inner: inner.add((3, 4)),
    ),
    "an iterator": (
        iter(range(CALLS)),
        lambda x, of: x * next(of.inner, -1),
        lambda inner: None,
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_object_that_cannot_be_looked_into(name: str) -> None:
    """Each call is the callable's own, or notices what another one finds."""

    def fn(x: torch.Tensor, of: Any) -> torch.Tensor:
        return x * of.inner.factor

    held = Holder(inner=UNKNOWN[name]())
    fast: Any = reprise.region(fn)
    for call in range(2 * CALLS):
        x = torch.rand(2)
        if call == CALLS:
            held.inner = UNKNOWN[name]()
        assert_same_bits(fast(x, held), fn(x, held))
    assert fast.explain().replayed > 0 or "holds Holder.inner" in str(fast.explain())


@pytest.mark.parametrize("name", CHANGING)
def test_object_that_changes_unseen(name: str) -> None:
    inner, fn, change = CHANGING[name]
    ours, plain = Holder(inner=inner), Holder(inner=copy.copy(inner))
    fast: Any = reprise.region(fn)
    for call in range(2 * CALLS):
        x = torch.rand(2)
        if call == CALLS:
            change(ours.inner)
            change(plain.inner)
        assert_same_bits(fast(x, ours), fn(x, plain))
    assert "holds Holder.inner" in str(fast.explain())


def test_containers_that_hold_themselves() -> None:
    def fn(x: torch.Tensor, of: Any) -> torch.Tensor:
        return x * 2

    fast: Any = reprise.region(fn)
    parts: list[Any] = []
    parts.append(parts)
    held = Holder(parts=parts)
    check_calls(fast, fn, lambda: (torch.rand(2), held))
    check_calls(fast, fn, lambda: (torch.rand(2), parts), replayed=0)
    assert "holds itself" in str(fast.explain())


def test_a_call_looks_at_little() -> None:
    """What is watched is not looked at, however many modules there are."""
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(100)))
    state = State(Walk(model), 1)
    assert len(state.dicts()) > 100
    assert state.difference() is None
    state.arm(Watch())
    assert state.is_quiet()
    assert state.looks() < 8


def test_objects_of_several_threads() -> None:
    """More sets of objects than are kept come and go on all threads at once."""

    def fn(x: torch.Tensor, of: Any) -> tuple[torch.Tensor, Any]:
        return x * of.factor, of

    fast: Any = reprise.region(fn)
    wrong: list[Any] = []

    def work(number: int) -> None:
        factor = float(number)
        for _ in range(50):
            held = Holder(factor=torch.full((2,), factor))
            for _ in range(4):
                found, back = fast(torch.ones(2), held)
                if back is not held or found.tolist() != [factor, factor]:
                    wrong.append((factor, found))
            str(fast.explain())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        in_threads(work, 4)
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    held = Holder(factor=torch.full((2,), 3.0))
    before = fast.explain().replayed
    for _ in range(64):  # a new set is taken in only now and then
        assert fast(torch.ones(2), held)[0].tolist() == [3.0, 3.0]
    assert fast.explain().replayed > before, str(fast.explain())


def test_module_that_has_a_region(device: str) -> None:
    """A region among what a callable leads to is what it is a region of."""
    net: Any = perceptron(device)
    net.forward = reprise.region(net.forward)
    twin = perceptron(device)
    twin.load_state_dict(net.state_dict())
    with torch.no_grad():
        for call in range(CALLS):
            x = batch(device)
            assert_same_bits(net(x), twin(x), str(call))
    assert net.forward.explain().replayed >= CALLS - 4, str(net.forward.explain())


def test_attribute_that_the_callable_changes_is_named(device: str) -> None:
    class Counts(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + 1

    net = Counts()
    fast = reprise.region(net)
    for _ in range(2 * CALLS):
        fast(batch(device))
    assert net.calls == 2 * CALLS and "Counts.calls" in str(fast.explain())


def test_seeding_inside_is_refused(device: str) -> None:
    @reprise.region
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(5)
        return x + torch.rand_like(x)

    for call in range(CALLS):
        torch.manual_seed(call)
        x = batch(device)
        assert torch.equal(fn(x), fn.__wrapped__(x))
    assert fn.explain().replayed == 0


@pytest.mark.parametrize("place", ["number", "branch", "constant"])
def test_broken_promise_is_found_by_a_sample(
    device: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    lies = {"factor": 2.0, "turn": False, "shift": torch.ones(16, device=device)}
    address = id(lies)  # nobody looks there

    def fn(x: torch.Tensor) -> torch.Tensor:
        held = ctypes.cast(address, ctypes.py_object).value
        y = x * held["factor"] + held["shift"]
        return y.relu() if held["turn"] else y

    fast = reprise.region(fn)
    check_calls(fast, fn, lambda: (batch(device),))
    if place == "number":
        lies["factor"] = 3.0
    elif place == "branch":
        lies["turn"] = True
    else:
        lies["shift"] = torch.zeros(16, device=device)
    with caplog.at_level(logging.ERROR, "reprise"):
        for _ in range(PERIOD):
            fast(batch(device))
    check_calls(fast, fn, lambda: (batch(device),), replayed=0)
    if place != "constant":  # which died, and was missed at once
        assert "something else than what was replayed" in caplog.text
        assert "test_regions.py" in caplog.text
        assert "withdrawn" in str(fast.explain())


def test_samples_come_ever_more_rarely(device: str) -> None:
    fast = reprise.region(lambda x: x + 1)
    x = batch(device)
    for _ in range(3 + 256 + 512 + 1024 + 10):
        fast(x)
    assert fast.explain().samples == 3


def test_check_always_and_never(device: str) -> None:
    always = reprise.region(lambda x: x + 1, check="always")
    never = reprise.region(check="never")(lambda x: x + 1)
    for _ in range(300):
        x = batch(device)
        assert torch.equal(always(x), never(x))
    assert always.explain().replayed == 0 and always.explain().recorded == 300
    assert never.explain().replayed == 298 and never.explain().samples == 0


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="give a callable"):
        reprise.region(3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="sample, always, never"):
        reprise.region(len, check="now")  # type: ignore[call-overload]


def test_a_region_of_a_modules_region_is_one_region(device: str) -> None:
    module = perceptron(device)
    inner: Any = reprise.region(module)
    outer: Any = reprise.region(inner, check="never")
    x = batch(device)
    for _ in range(300):
        assert torch.equal(outer(x), module(x))
    report = outer.explain()
    assert report.replayed > 0 and report.samples == 0  # as by "never"
    assert inner.explain().calls == 0
    assert type(outer) is type(inner)


def test_a_region_of_a_part_of_a_modules_region(device: str) -> None:
    whole: Any = reprise.region(perceptron(device))
    part = whole[:2]
    fast: Any = reprise.region(part)
    x = batch(device)
    for _ in range(CALLS):
        assert torch.equal(fast(x), part(x))
    assert fast.explain().replayed > 0


def test_forms_that_never_come_again_stop_being_recorded(device: str) -> None:
    fn = reprise.region(lambda x: x + 1)
    for rows in range(1, 200):
        x = torch.randn(rows, device=device)
        assert torch.equal(fn(x), x + 1)
    assert fn.explain().recorded < 60
    assert "do not come again" in str(fn.explain())


# --- What the calls do not tell ---


def check_as_eager(
    plain: Callable[..., Any], calls: list[tuple[Any, ...]], replayed: int = 0
) -> reprise.RegionReport:
    """Each call gives what the callable gives on copies of its arguments."""
    fast = reprise.region(plain)
    for given in calls:
        expected = plain(*copy.deepcopy(given))
        assert_same_bits(_all(fast(*copy.deepcopy(given))), _all(expected))
    assert fast.explain().replayed >= replayed, str(fast.explain())
    return fast.explain()


@pytest.mark.parametrize(
    ("fn", "numbers"),
    [
        (lambda x, t: x * t + (t + 1), [0.5, 0.7, 0.7, 0.3, 0.9]),
        (lambda x, t: x * min(t, 1.0), [0.5, 0.7, 0.8, 1.5]),
        (lambda x, t: x * abs(t), [0.5, 0.7, 0.8, -1.5]),
        (lambda x, t: x * t if t < 1 else x + t, [0.5, 0.7, 0.8, 1.5]),
        (lambda x, t: x * t + (x if int(t) else 0), [0.5, 0.7, 0.8, 1.5]),
    ],
)
def test_number_that_python_uses_does_not_vary(
    device: str, fn: Callable[..., Any], numbers: list[float]
) -> None:
    x = batch(device)
    check_as_eager(fn, [(x, number) for number in numbers])


def test_two_numbers_that_are_equal_are_told_apart(device: str) -> None:
    numbers = [(0.5, 0.5), (0.7, 0.7), (0.7, 0.7), (0.9, 0.7), (0.2, 0.3)]
    x = batch(device)
    check_as_eager(lambda x, a, b: x * a + b, [(x, *each) for each in numbers])


def test_gradients_of_what_is_found_late(device: str) -> None:
    hidden = torch.randn(16, device=device, requires_grad=True)

    class Slots:
        __slots__ = ("weight",)

    holder = Slots()
    holder.weight = torch.randn(16, device=device, requires_grad=True)

    def plain(x: torch.Tensor) -> None:
        (x * hidden * holder.weight).sum().backward()

    fast = reprise.region(plain)
    for _ in range(CALLS):
        x = batch(device).requires_grad_()
        y = x.detach().clone().requires_grad_()
        grads = []
        for call, given in ((fast, x), (plain, y)):
            hidden.grad = holder.weight.grad = None
            call(given)
            grads.append([hidden.grad, holder.weight.grad, given.grad])
        assert_same_bits(grads[0], grads[1])
    assert fast.explain().replayed >= CALLS - 3


def test_backward_that_goes_on_outside(device: str) -> None:
    weight = torch.randn(16, device=device, requires_grad=True)
    fast = reprise.region(lambda x: (x * 2).sum().backward())
    for _ in range(CALLS):
        weight.grad = None
        fast(weight + 0)
        assert torch.equal(weight.grad, torch.full_like(weight, 2))


@pytest.mark.parametrize("grad", [False, True])
def test_tensors_that_python_fills(device: str, grad: bool) -> None:
    def plain(x: torch.Tensor) -> list[torch.Tensor]:
        table = torch.tensor([1.0, 2.0], device=device)
        picked = x[:, [0, 5]] * table
        return [picked, torch.where(picked > 0, picked, torch.tensor(-1.0))]

    xs = [batch(device).requires_grad_(grad) for _ in range(CALLS)]
    # On a device it is copied there behind the back of what is below autograd.
    seen = grad or device == "cpu"
    report = check_as_eager(
        lambda x: plain(x), [(x,) for x in xs], CALLS - 4 if seen else 0
    )
    assert seen or "new at each call" in str(report)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.tensor([x[0, 0].item(), 1.0]) * 2,
        lambda x: torch.tensor([x[0, 0], x[0, 1]]) * 2,
    ],
)
def test_tensor_made_of_tensors_is_read(fn: Callable[..., Any]) -> None:
    first = torch.ones(2, 2)
    check_as_eager(fn, [(first,)] * 5 + [(first * 3,)])


def test_scheduler_counter_and_argument_that_change_are_refused(device: str) -> None:
    net = perceptron(device)
    optimizer = sgd(net)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    counter = {"calls": 0}

    def step(x: torch.Tensor, seen: list[int]) -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        decay.step()

    def count(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        counter["calls"] += 1
        return x + 1

    def append(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        seen.append(1)
        return x + 1

    fast = [reprise.region(each) for each in (step, count, append)]
    seen: list[int] = []
    for _ in range(CALLS):
        for each in fast:
            each(batch(device), seen)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.9**CALLS)
    assert counter["calls"] == CALLS and len(seen) == CALLS
    for each, verb in zip(fast, ("changes", "sets", "changes"), strict=True):
        assert f"it {verb} " in str(each.explain())


def test_argument_that_is_also_read_from_outside(device: str) -> None:
    weight = batch(device)
    net = perceptron(device)
    xs = [weight, weight, weight, batch(device)]
    fast = reprise.region(lambda x: x * 10 + weight)
    for x in xs:
        assert_same_bits(fast(x), x * 10 + weight)
    fast = reprise.region(lambda a, b: a * 10 + b.data)
    for alias in (True, True, True, True, False):
        a = batch(device)
        b = a.detach() if alias else batch(device)
        assert_same_bits(fast(a, b), a * 10 + b)
    with torch.no_grad():
        fast = reprise.region(lambda x: net(x))
        square = nn.Linear(16, 16).to(device)
        fast = reprise.region(square)
        for x in [square.weight.data] * 4 + [torch.randn(16, 16, device=device)]:
            assert_same_bits(fast(x), square(x))


def test_tensors_from_outside_in_one_place(device: str) -> None:
    """They may part: nothing is taken for something else."""
    net = perceptron(device)
    first: Any = net[0]
    row = nn.Parameter(first.weight.data[0], requires_grad=False)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * first.weight[0] + row

    fast = reprise.region(fn)
    with torch.no_grad():
        check_calls(fast, fn, lambda: (batch(device),), replayed=0)
        row.data = torch.randn(16, device=device)
        check_calls(fast, fn, lambda: (batch(device),), replayed=0)
    assert "lie in one place" in str(fast.explain())


def test_one_gradient_of_two(device: str) -> None:
    net = perceptron(device)
    first, second = (nn.Parameter(torch.randn(16, device=device)) for _ in range(2))

    def fn(x: torch.Tensor) -> torch.Tensor:
        assert first.grad is not None and second.grad is not None
        return net(x + first.grad) + second.grad.sum()

    first.grad = second.grad = torch.randn(16, device=device)
    fast = reprise.region(fn)
    with torch.no_grad():
        check_calls(fast, fn, lambda: (batch(device),), replayed=0)
        second.grad = torch.randn(16, device=device)
        check_calls(fast, fn, lambda: (batch(device),), replayed=0)
        apart = reprise.region(fn)
        check_calls(apart, fn, lambda: (batch(device),))
        second.grad = torch.randn(16, device=device)
        check_calls(apart, fn, lambda: (batch(device),))


def test_versions_and_views_are_those_of_eager(device: str) -> None:
    """What an operator calls itself counts for nothing."""
    table = torch.randn(9, 5, device=device)

    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        found = functional.embedding(x, table)
        mean = found.mean(1)
        return [found, mean, mean.max(0)[0], mean.add_(1)[:2], torch.zeros_like(mean)]

    fast = reprise.region(fn)
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randint(9, (4, 3), device=device)
            for one, other in zip(fast(x), fn(x), strict=True):
                assert (one._version, one._is_view()) == (
                    other._version,
                    other._is_view(),
                )
    assert fast.explain().replayed >= CALLS - 4


def test_inference_mode_that_ends_inside_is_refused(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            y = x * 2
        return y + 1

    fast = reprise.region(fn)
    with torch.no_grad():
        check_calls(fast, fn, lambda: (batch(device),), replayed=0)
    assert "inference mode begins or ends between operators" in str(fast.explain())


def test_data_of_tensors(device: str) -> None:
    weight = torch.randn(16, device=device)
    fast = reprise.region(lambda x: x * weight.data)
    for call in range(CALLS):
        if call == 5:
            weight.add_(1)
        x = batch(device)
        assert_same_bits(fast(x), x * weight)
    fast = reprise.region(lambda x: x.data)
    for _ in range(CALLS):
        x = batch(device).requires_grad_()
        out = fast(x)
        assert out is not x and not out.requires_grad and torch.equal(out, x)


def test_generators_that_are_set_inside(device: str) -> None:
    own = torch.Generator(device)

    def seeds(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(5)
        return x + torch.rand_like(x)

    def forks(x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(7)
            noise = torch.rand_like(x)
        return x + noise

    def of_its_own(x: torch.Tensor) -> torch.Tensor:
        own.manual_seed(3)
        return x + torch.rand(x.shape, generator=own, device=x.device)

    for plain in (seeds, forks, of_its_own):
        check_as_eager(plain, [(batch(device),) for _ in range(CALLS)])


def test_hooks_on_arguments_that_are_set_inside(device: str) -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        x.register_hook(lambda grad: grad * 5)
        return x * 2

    fast = reprise.region(plain)
    for _ in range(CALLS):
        x = batch(device).requires_grad_()
        (grad,) = torch.autograd.grad(fast(x).sum(), x)
        assert torch.equal(grad, torch.full_like(x, 10))


def test_hook_of_a_parameter_that_is_added_later(device: str) -> None:
    net = nn.Linear(16, 1).to(device)
    fast = reprise.region(lambda x: net(x).sum().backward())
    for call in range(2 * CALLS):
        if call == CALLS:
            net.bias.register_hook(lambda grad: grad * 3)
        net.zero_grad()
        fast(batch(device))
        assert net.bias.grad.item() == (8 if call < CALLS else 24)


def test_attribute_that_is_reset_outside(device: str) -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = None
            self.scales = [2.0]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = x + 1
            return self.last * self.scales[0]

    net = Keeps()
    fast = reprise.region(net)
    for call in range(2 * CALLS):
        net.last = None
        net.scales[0] = 2.0 + call // 3
        x = batch(device)
        assert torch.equal(fast(x), (x + 1) * net.scales[0])
        assert torch.equal(net.last, x + 1)


def test_what_the_code_does_not_name_may_change(device: str) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.steps = 0
            self.scale = 2.0
            self.count = 0
            self.losses: list[int] = []
            self.metrics: dict[str, int] = {}

        @reprise.region
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

        @reprise.region
        def counted(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + 1

    trainer = Trainer()
    for call in range(3 * CALLS):
        trainer.steps += 1
        trainer.losses.append(call)
        trainer.metrics["loss"] = call
        globals()["_changes_all_the_time"] = call
        if call == 2 * CALLS:
            trainer.scale = 3.0
        x = batch(device)
        assert torch.equal(trainer.run(x), x * trainer.scale)
        assert torch.equal(trainer.counted(x), x + 1)
    assert trainer.run.explain().replayed >= 3 * CALLS - 5
    assert trainer.count == 3 * CALLS


class Settings:
    def __init__(self) -> None:
        self.alpha = 1.0
        self._beta = 1.0

    @property
    def beta(self) -> float:
        return self._beta

    def __call__(self, y: torch.Tensor) -> torch.Tensor:
        return y * self.alpha + self.beta

    def named(self, y: torch.Tensor) -> torch.Tensor:
        return y * getattr(self, "al" + "pha")


@pytest.mark.parametrize("use", ["call", "method", "getattr", "hook"])
@pytest.mark.parametrize("attribute", ["alpha", "_beta"])
def test_attribute_that_a_helper_reads(device: str, use: str, attribute: str) -> None:
    settings = Settings()
    net = perceptron(device)
    if use == "hook":
        net.register_forward_hook(lambda module, given, out: settings(out))

    class Step:
        def helper(self, y: torch.Tensor) -> torch.Tensor:
            return settings(y) if use != "getattr" else settings.named(y)

        def run(self, x: torch.Tensor) -> torch.Tensor:
            if use == "call":
                return settings(net(x))
            return net(x) if use == "hook" else self.helper(net(x))

    plain = Step().run
    fast = reprise.region(plain)
    with torch.no_grad():
        for call in range(3 * CALLS):
            if call == 2 * CALLS:
                setattr(settings, attribute, 3.0)
            x = batch(device)
            assert_same_bits(fast(x), plain(x))
    assert fast.explain().replayed >= CALLS


def test_what_a_hook_keeps_is_kept(device: str) -> None:
    class Features:
        def hook(self, module: nn.Module, given: Any, out: torch.Tensor) -> None:
            self.out = out

    features, kept = Features(), {}
    net = perceptron(device)
    net[0].register_forward_hook(features.hook)
    net[1].register_forward_hook(lambda m, i, out: kept.__setitem__("out", out))
    fast = reprise.region(net)
    with torch.no_grad():
        for _ in range(2 * CALLS):
            x = batch(device)
            fast(x)
            assert_same_bits([features.out, kept["out"]], [net[0](x), net[:2](x)])


def test_counter_among_the_arguments_ends_it(device: str) -> None:
    fast = reprise.region(lambda x, step: x + step)
    x = batch(device)
    for step in range(300):
        assert torch.equal(fast(x, step), x + step)
    report = fast.explain()
    assert report.recorded < 200 and "give numbers as tensors" in str(report)


@pytest.mark.parametrize("kind", [list, dict])
def test_large_containers_are_refused(device: str, kind: Any) -> None:
    data = list(range(200_000)) if kind is list else {i: i for i in range(200_000)}
    fast: Any = reprise.region(lambda x: x + data[0])
    check_calls(fast, lambda x: x + data[0], lambda: (batch(device),), replayed=0)
    report = fast.explain()
    assert report.replayed == report.recorded == 0
    assert "more than 65536 objects, the last ones in data" in str(report)


def test_optimizer_state_that_is_loaded(device: str) -> None:
    net = perceptron(device)
    twin = copy.deepcopy(net)
    optimizers = [sgd(net), sgd(twin)]

    def step(model: nn.Module, optimizer: Any, x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    fast = reprise.region(lambda x: step(net, optimizers[0], x))
    kept = []
    for call in range(3 * CALLS):
        x = batch(device)
        fast(x)
        step(twin, optimizers[1], x)
        if call == CALLS:
            kept = [copy.deepcopy(each.state_dict()) for each in optimizers]
        if call == 2 * CALLS:
            held = [each.state_dict() for each in optimizers]
            for each, state in zip(optimizers, kept, strict=True):
                each.load_state_dict(state)
            assert held
    assert_same_bits(list(net.parameters()), list(twin.parameters()))
    assert fast.explain().replayed >= CALLS


def test_objects_of_methods_go(device: str) -> None:
    class Owner:
        @reprise.region
        def double(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    owner = Owner()
    for _ in range(CALLS):
        owner.double(batch(device))
    assert owner.double.explain().replayed >= CALLS - 3
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
    assert torch.equal(Owner().double(torch.ones(2)), torch.full((2,), 2.0))


class WithMethod(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.linear.register_forward_hook(lambda *_: None)

    @reprise.region
    def run(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


@pytest.mark.parametrize("kind", ["method", "argument", "in an object"])
@pytest.mark.parametrize("trains", [False, True])
def test_modules_go(device: str, kind: str, trains: bool) -> None:
    """Of a region's method, and among its arguments: and their weights do."""

    class Holder:
        def __init__(self, net: nn.Module) -> None:
            self.net = net

    fast: Any = reprise.region(lambda holder, x: holder.net.linear(x).relu())
    plain: Any = reprise.region(lambda net, x: net.linear(x).relu())
    gone = []
    replayed = 0
    for _ in range(4):
        net = WithMethod().to(device)
        holder = Holder(net)
        with torch.set_grad_enabled(trains):
            for _ in range(CALLS):
                x = batch(device)
                if kind == "method":
                    y = net.run(x)
                else:
                    y = plain(net, x) if kind == "argument" else fast(holder, x)
                assert_same_bits([y], [net.linear(x).relu()])
                if trains:
                    y.sum().backward()
        if kind == "method":
            replayed += net.run.explain().replayed
        gone += [weakref.ref(net), weakref.ref(net.linear.weight)]
        del net, holder, y
        gc.collect()
    replayed += plain.explain().replayed + fast.explain().replayed
    assert replayed >= 2 * CALLS
    assert not any(ref() is not None for ref in gone)


# --- Round it ---


def test_nested_regions(device: str) -> None:
    inner = reprise.region(lambda x: x.relu() + 1)
    outer = reprise.region(lambda x: inner(x) * 2 - inner(x + 1))
    check_calls(
        outer,
        lambda x: (x.relu() + 1) * 2 - ((x + 1).relu() + 1),
        lambda: (batch(device),),
    )


def test_threads(device: str) -> None:
    net = perceptron(device).eval()
    fast = reprise.region(net)

    @torch.no_grad()
    def work(seed: int) -> None:
        generator = torch.Generator(device).manual_seed(seed)
        for _ in range(100):
            x = torch.randn(8, 16, device=device, generator=generator)
            assert_same_bits(fast(x), net(x))

    in_threads(work, 4)
    assert fast.explain().replayed > 50


def test_modes_of_python_see_every_operator(device: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    net = perceptron(device)
    fast = reprise.region(net)
    with torch.no_grad():
        check_calls(fast, net, lambda: (batch(device),))
        with FlopCounterMode(display=False) as counter:
            fast(batch(device))
    assert counter.get_total_flops() > 0
    x = torch.randn(3, 8, 16, device=device)
    assert_same_bits(torch.vmap(fast)(x), torch.vmap(net)(x))


def test_off_by_variable(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE", "0")
    fast = reprise.region(lambda x: x + 1)
    for _ in range(CALLS):
        x = batch(device)
        assert torch.equal(fast(x), x + 1)
    assert fast.explain().replayed == 0


def test_report_has_regions(device: str) -> None:
    @reprise.region
    def named(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with reprise.session(device):
        for _ in range(CALLS):
            named(batch(device))
        report = reprise.explain()
    (found,) = [r for r in report.to_dict()["regions"] if r["name"].endswith("named")]
    assert found["replayed"] == CALLS - 2
    assert found["name"] in str(report)


def test_report_names_what_has_changed(device: str) -> None:
    net = perceptron(device)
    fast: Any = reprise.region(net)
    with torch.no_grad():
        for call in range(12):
            net.train(call % 6 == 5)
            fast(batch(device))
        fast(input=batch(device))
    report = fast.explain()
    assert "structure of the arguments" in report.guards
    assert any(name.endswith(".training") for name in report.guards), report.guards
    assert report.seconds > 0 and f"{report.replayed} of 13 calls replayed in" in str(
        report
    )
    assert "changed since the call before: Sequential.training" in str(report)
    assert str(report) in str(reprise.explain())


def test_nothing_is_kept_of_a_region_that_went(device: str) -> None:
    net = perceptron(device)
    fast = reprise.region(net)
    with torch.no_grad():
        for _ in range(CALLS):
            fast(batch(device))
    gone = weakref.ref(net[0].weight)
    del net, fast
    gc.collect()
    assert gone() is None


# --- torch.compile ---


def test_backend(device: str) -> None:
    from reprise._compiler import reprise as backend

    net = nn.Sequential(
        nn.Linear(16, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(32, 4),
    ).to(device)
    twin = copy.deepcopy(net)
    fast = torch.compile(net, backend=backend, options={"check": "sample"})
    for call in range(2 * CALLS):
        x = batch(device)
        torch.manual_seed(call)
        expected = twin(x)
        expected.square().sum().backward()
        torch.manual_seed(call)
        found = fast(x)
        found.square().sum().backward()
        assert_same_bits([found, *gradients(net)], [expected, *gradients(twin)])
    assert_same_bits(list(net.state_dict().values()), list(twin.state_dict().values()))
    net.eval()
    twin.eval()
    with torch.no_grad():
        for _ in range(2 * CALLS):
            x = batch(device)
            assert_same_bits(fast(x), twin(x))
    with reprise.session(device):  # there is something to report
        reports = reprise.explain().to_dict()["regions"]
    assert max(r["replayed"] for r in reports) > CALLS
    torch._dynamo.reset()


def test_default_device(device: str) -> None:
    """Set by the program; another one is another variant."""
    net = perceptron(device)

    def plain(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return net(x), torch.arange(4.0) * 2

    fast = reprise.region(plain)
    try:
        for default in (device, "cpu", device):
            torch.set_default_device(default)
            for _ in range(CALLS):
                x = batch(device)
                assert_same_bits(_all(fast(x)), _all(plain(x)))
            with torch.overrides.BaseTorchFunctionMode():
                assert_same_bits(_all(fast(x)), _all(plain(x)))
            for p in net.parameters():
                p.grad = None
            fast(x)[0].sum().backward()
    finally:
        torch.set_default_device(None)
    report = fast.explain()
    assert report.replayed >= CALLS, str(report)
    assert report.backward or report.reasons


def test_backend_with_other_parameters(device: str) -> None:
    """What Dynamo gives a graph with each call is led to, and not kept."""
    from reprise._compiler import reprise as backend

    def called(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return net(x).relu()

    fast = torch.compile(called, backend=backend)
    nets = [nn.Linear(16, 4).to(device) for _ in range(2)]
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        for turn in range(4):
            for _ in range(CALLS):
                x = batch(device)
                assert_same_bits(fast(nets[turn % 2], x), called(nets[turn % 2], x))
                session.wait(60)
            before = session.stats().followed
        replaced = nn.Parameter(torch.rand(4, 16, device=device))
        nets[1].weight = replaced
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(nets[1], x), called(nets[1], x))
            session.wait(60)
        assert session.stats().followed > before
        gone = weakref.ref(nets[0].weight)
        del nets[0]
        gc.collect()
        assert gone() is None
        for _ in range(30):  # others in each call
            net = nn.Linear(16, 4).to(device)
            x = batch(device)
            assert_same_bits(fast(net, x), called(net, x))
    torch._dynamo.reset()


def test_backend_refuses_unknown_options() -> None:
    from reprise._compiler import reprise as backend

    with pytest.raises(ValueError, match="check"):
        backend(torch.fx.symbolic_trace(nn.ReLU()), [], options={"fast": True})
