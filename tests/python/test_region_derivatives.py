"""Gradients of gradients, and transforms of torch.func, that begin and end inside of a call.

Their operators are calls like others. What is left of them behind the call must be what
eager leaves: no history may be lost, and no tangent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import func, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.autograd import forward_ad, functional, grad
from torch.nn.functional import conv2d, cross_entropy, dropout, linear
from torch.utils._pytree import tree_leaves
from watching import in_threads

CALLS = 10
WIDTH = 4


class World:
    """What a call reads and writes beside its argument."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        layers = [nn.Linear(WIDTH, 6), nn.Tanh(), nn.Linear(6, 1)]
        self.net = nn.Sequential(*layers)
        self.weight = nn.Parameter(torch.randn(WIDTH))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.kept: Any = None

    @property
    def own(self) -> list[nn.Parameter]:
        return list(self.net.parameters())

    def detached(self) -> dict[str, torch.Tensor]:
        return {name: each.detach() for name, each in self.net.named_parameters()}

    def loss(self, weights: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = func.functional_call(self.net, weights, (x,))
        return result.square().mean()

    def learn(self, loss: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


Step = Callable[[torch.Tensor], Any]
REPLAYED: dict[str, Callable[[World], Step]] = {}
REFUSED: dict[str, tuple[Callable[[World], Step], str]] = {}


def replayed(make: Callable[[World, torch.Tensor], Any]) -> None:
    """Replays answer it."""
    REPLAYED[make.__name__] = lambda world: lambda x: make(world, x)


def refused(because: str) -> Callable[[Callable[[World, torch.Tensor], Any]], None]:
    """No replay may answer it."""

    def add(make: Callable[[World, torch.Tensor], Any]) -> None:
        REFUSED[make.__name__] = lambda world: lambda x: make(world, x), because

    return add


# --- Gradients of gradients ---


@replayed
def equation(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    u = world.net(x)
    (first,) = grad(u, x, torch.ones_like(u), create_graph=True)
    (second,) = grad(first, x, torch.ones_like(first), create_graph=True)
    return world.learn((u + second.sum(1, keepdim=True)).square().mean())


@replayed
def third(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    u = world.net(x).sum()
    for _ in range(3):
        u = grad(u, x, create_graph=True)[0].square().sum()
    u.backward()
    return u.detach()


@replayed
def penalty(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    u = dropout(world.net(x), 0.5).sum()
    (slope,) = grad(u, x, create_graph=True)
    return world.learn(u + (slope.norm(dim=1) - 1).square().mean())


@replayed
def inner_steps(world: World, x: torch.Tensor) -> Any:
    weights: list[torch.Tensor] = [*world.own]

    def loss(w: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return linear(torch.tanh(linear(x, w[0], w[1])), w[2], w[3]).square().mean()

    for _ in range(2):
        slopes = grad(loss(weights, x), weights, create_graph=True)
        weights = [w - 0.1 * g for w, g in zip(weights, slopes, strict=True)]
    return world.learn(loss(weights, x + 1))


@replayed
def of_what_backward_leaves(world: World, x: torch.Tensor) -> Any:
    world.optimizer.zero_grad()
    world.net(x).square().mean().backward(create_graph=True)
    size = torch.stack([each.grad.square().sum() for each in world.own]).sum()  # type: ignore[union-attr]
    for each, slope in zip(world.own, grad(size, world.own), strict=True):
        each.grad = slope
    world.optimizer.step()
    return size.detach()


@replayed
def accumulated(world: World, x: torch.Tensor) -> Any:
    world.net(x).square().mean().backward(create_graph=True)
    for each in world.own:
        assert each.grad is not None
        each.grad = each.grad.detach()
    world.optimizer.step()


@replayed
def of_a_linear_loss(world: World, x: torch.Tensor) -> Any:
    """Its gradient has no history, for all that is asked for."""
    (world.weight * x).sum().backward(create_graph=True)
    return x + 1


@replayed
def kept_graph(world: World, x: torch.Tensor) -> Any:
    world.optimizer.zero_grad()
    hidden = world.net[:2](x)
    first, second = hidden.square().mean(), world.net[2](hidden).square().mean()
    first.backward(retain_graph=True)
    second.backward()
    world.optimizer.step()
    return first.detach(), second.detach()


@replayed
def parts_of_a_graph(world: World, x: torch.Tensor) -> Any:
    loss = world.net(x).square().mean()
    loss.backward(inputs=[world.own[0]])
    return loss.detach()


@replayed
def hooked(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    hidden = world.net[:2](x)
    hidden.register_hook(lambda slope: slope * 2)
    (slope,) = grad(world.net[2](hidden).sum(), x, create_graph=True)
    slope.square().sum().backward()
    return slope.detach()


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, given: torch.Tensor) -> Any:
        return given * 3 * ctx.saved_tensors[0] ** 2


@replayed
def of_a_function(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    (slope,) = grad(Cube.apply(world.net(x)).sum(), x, create_graph=True)
    return world.learn(slope.square().sum())


@replayed
def in_a_batch(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    return grad(world.net(x)[:, 0], x, torch.eye(len(x)), is_grads_batched=True)


@replayed
def products(world: World, x: torch.Tensor) -> Any:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return world.net(x).square().mean()  # type: ignore[no-any-return]

    ones = torch.ones_like(x)
    return functional.hessian(loss, x[:1]), functional.hvp(loss, x, ones)


# --- Transforms of torch.func ---


@replayed
def func_grad(world: World, x: torch.Tensor) -> Any:
    return func.grad_and_value(world.loss)(world.detached(), x)


@replayed
def func_vjp(world: World, x: torch.Tensor) -> Any:
    loss, back = func.vjp(world.loss, world.detached(), x)
    return loss, back(torch.ones_like(loss))


@replayed
def each_sample(world: World, x: torch.Tensor) -> Any:
    return func.vmap(func.grad(world.loss), in_dims=(None, 0))(world.detached(), x)


@replayed
def each_sample_of_a_convolution(world: World, x: torch.Tensor) -> Any:
    """Where torch.func gives an operator memory that nobody has written."""
    kernel = world.weight.detach().view(1, 1, 2, 2)

    def loss(kernel: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return conv2d(x.view(1, 1, 2, 2), kernel).square().sum()

    return func.vmap(func.grad(loss), in_dims=(None, 0))(kernel, x)


@replayed
def laplacian(world: World, x: torch.Tensor) -> Any:
    weights = dict(world.net.named_parameters())

    def curvature(x: torch.Tensor) -> torch.Tensor:
        return func.hessian(world.loss, argnums=1)(weights, x).diagonal().sum()  # type: ignore[no-any-return]

    return world.learn(func.vmap(curvature)(x).square().mean())


@replayed
def jacobians(world: World, x: torch.Tensor) -> Any:
    weights = world.detached()

    def of(x: torch.Tensor) -> Any:
        return func.functional_call(world.net, weights, (x,))

    return func.jacrev(of)(x[0]), func.jacfwd(of)(x[0]), func.hessian(of)(x[0])


@replayed
def at_random(world: World, x: torch.Tensor) -> Any:
    del world
    mapped = func.vmap(lambda x: dropout(x, 0.5), randomness="same")
    return mapped(x), func.vmap(torch.randn_like, randomness="different")(x)


@replayed
def writes_under_a_transform(world: World, x: torch.Tensor) -> Any:
    x = x.clone()
    func.vmap(lambda x: x.mul_(2))(x)
    with torch.no_grad():
        func.vmap(lambda w: w.add_(1))(world.weight)
    return x


@replayed
def function_under_a_transform(world: World, x: torch.Tensor) -> Any:
    """It is called by an operator that torch has in Python."""
    del world
    return func.vmap(func.grad(lambda x: Cube.apply(x).sum()))(x)


@replayed
def scanned(world: World, x: torch.Tensor) -> Any:
    """By another one of these."""
    del world
    return associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="generic")


# --- Forward mode ---


@replayed
def func_jvp(world: World, x: torch.Tensor) -> Any:
    weights = world.detached()
    return func.jvp(lambda x: world.loss(weights, x), (x,), (torch.ones_like(x),))


@replayed
def of_zero_tangents(world: World, x: torch.Tensor) -> Any:
    """Some have no memory: operators get them, and views of them."""
    weights, target = world.detached(), torch.arange(len(x)) % WIDTH

    def loss(weights: Any) -> torch.Tensor:
        scores = func.functional_call(world.net, weights, (x,)) * x
        return cross_entropy(scores.log_softmax(1), target)

    tangents = {name: torch.ones_like(each) for name, each in weights.items()}
    return func.jvp(func.grad(loss), (weights,), (tangents,))


@replayed
def twice_forward(world: World, x: torch.Tensor) -> Any:
    del world
    ones = torch.ones_like(x)

    def slope(x: torch.Tensor) -> torch.Tensor:
        return func.jvp(lambda x: (x.sin() * 2).sum(), (x,), (ones,))[1]  # type: ignore[no-any-return]

    return func.jvp(slope, (x,), (ones,))


@replayed
def dual_numbers(world: World, x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        value, tangent = forward_ad.unpack_dual(dual.tanh() * world.weight)
    assert tangent is not None
    loss = (value + tangent).sum()
    loss.backward()
    return loss.detach()


@replayed
def forms_alone(world: World, x: torch.Tensor) -> Any:
    del world
    shape = (x.to("meta") @ torch.empty(WIDTH, 7, device="meta")).shape
    return x.sum() + torch.zeros(shape)


# --- What stays behind the call ---

HISTORY = "an output has a history still"


@refused("keeps a gradient that has a history")
def gradients_with_histories(world: World, x: torch.Tensor) -> Any:
    world.optimizer.zero_grad()
    world.net(x).square().mean().backward(create_graph=True)
    return x + 1


@refused("gradients are asked for, and its results have some, too")
def a_gradient_that_is_given_one(world: World, x: torch.Tensor) -> Any:
    (world.weight * x).sum().backward()
    assert world.weight.grad is not None
    world.weight.grad.mul_(world.weight)
    return x + 1


@refused("a backward pass inside goes on outside")
def a_gradient_that_had_one(world: World, x: torch.Tensor) -> Any:
    if world.weight.grad is None:
        world.weight.grad = world.own[3].expand(WIDTH) + 0
    own = torch.ones(WIDTH, requires_grad=True)
    (world.weight.grad * own).sum().backward(retain_graph=True)
    return x + 1


@refused(HISTORY)
def a_slope(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    return grad(world.net(x).sum(), x, create_graph=True)


@refused(HISTORY)
def a_slope_of_a_transform(world: World, x: torch.Tensor) -> Any:
    return func.grad(world.loss)(dict(world.net.named_parameters()), x)


@refused(HISTORY)
def a_loss_whose_graph_is_kept(world: World, x: torch.Tensor) -> Any:
    loss = world.net(x).square().mean()
    loss.backward(retain_graph=True)
    return loss


@refused(HISTORY)
def what_a_pass_has_left_out(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    loss = (x + world.weight.cos()).sum()
    grad(loss, x)
    return loss


@refused(HISTORY)
def a_sum_of_leaves(world: World, x: torch.Tensor) -> Any:
    """Passes have gone through their functions, which are not used up by that."""
    for _ in range(2):
        (world.weight * x).sum().backward()
        (world.own[3] * x).sum().backward()
    return world.weight + world.own[3]


@refused("an output is made inside, and keeps a gradient")
def a_leaf(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    (x * world.weight).sum().backward()
    return x


@refused("an output is made inside, and keeps a gradient")
def a_tensor_that_retains(world: World, x: torch.Tensor) -> Any:
    hidden = world.net(x)
    hidden.retain_grad()
    hidden.sum().backward()
    return hidden


@refused(HISTORY)
def an_attribute(world: World, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    (world.kept,) = grad(world.net(x).square().sum(), x, create_graph=True)
    return x.detach()


@refused("forward-mode differentiation")
def a_tangent_with_a_history(world: World, x: torch.Tensor) -> Any:
    return func.jvp(world.net, (x,), (torch.ones_like(x),))


@refused("no ordinary one")
def a_tensor_of_forms(world: World, x: torch.Tensor) -> Any:
    del world
    return x + torch.zeros((META * 2).shape)[0]


META = torch.empty(2, WIDTH, device="meta")


@refused("leaves another mode")
def a_level(world: World, x: torch.Tensor) -> Any:
    del world
    torch._C._functorch._vmap_increment_nesting(3, "error")
    return x + 1


# --- Beside a plain twin ---


def told(value: Any) -> Any:
    """Its bits, and what autograd knows of it."""
    if not isinstance(value, torch.Tensor):
        return value
    leaf = value.is_leaf
    gradient = value.grad if leaf or value.retains_grad else None
    return (
        value.detach().clone().reshape(-1).view(torch.uint8).tolist(),
        value.shape,
        value.stride(),
        value.requires_grad,
        leaf,
        None if gradient is None else told(gradient),
    )


@contextlib.contextmanager
def no_level_behind() -> Iterator[None]:
    yield
    while torch._C._functorch.maybe_current_level() is not None:
        torch._C._functorch._vmap_decrement_nesting()


def played(
    make: Callable[[World], Step],
    region: bool,
    sizes: tuple[int, ...] = (5,),
    world: World | None = None,
) -> tuple[list[Any], Any]:
    """Results, state and random numbers of all calls; and what was called.

    `world`: there are no random numbers, of which the process has one generator.
    """
    draws, world = world is None, world or World()
    step: Any = make(world)
    step = reprise.region(step) if region else step
    found: list[Any] = []
    generator = torch.Generator().manual_seed(0)
    for call in range(CALLS):
        if draws:
            torch.manual_seed(call)
        x = torch.randn(sizes[call % len(sizes)], WIDTH, generator=generator)
        with no_level_behind():
            result = step(x)
        left = [*world.own, world.weight, world.kept]
        left += [torch.get_rng_state()] if draws else []
        state = [each.get("momentum_buffer") for each in world.optimizer.state.values()]
        found += [told(each) for each in tree_leaves((result, left, state))]
    return found, step


pytestmark = pytest.mark.filterwarnings("ignore:Using backward:UserWarning")


@pytest.mark.parametrize("sizes", [(5,), (5, 3)])
@pytest.mark.parametrize("name", REPLAYED)
def test_what_ends_inside_is_replayed(name: str, sizes: tuple[int, ...]) -> None:
    expected, _ = played(REPLAYED[name], False, sizes)
    with reprise.session("cpu") if len(sizes) > 1 else contextlib.nullcontext():
        found, step = played(REPLAYED[name], True, sizes)
    assert found == expected
    assert step.explain().replayed > CALLS // 3, str(step.explain())


@pytest.mark.parametrize("name", REFUSED)
def test_what_stays_is_eagers(name: str) -> None:
    make, because = REFUSED[name]
    expected, _ = played(make, False)
    found, step = played(make, True)
    assert found == expected
    report = step.explain()
    assert report.replayed == 0, str(report)
    assert any(because in each for each in report.reasons), str(report)


def test_a_gradient_that_the_call_sets_keeps_its_history() -> None:
    """Without a pass inside, operators give it its history in each call."""

    def make(world: World) -> Step:
        def step(x: torch.Tensor) -> torch.Tensor:
            world.weight.grad = world.own[3] * x[0]
            return x + 1

        return step

    expected, _ = played(make, False)
    found, step = played(make, True)
    assert found == expected
    assert step.explain().replayed > 0


def test_tangents_round_a_call() -> None:
    """A call that is given some, or makes some for its caller, runs."""
    weight, ones = torch.randn(WIDTH), torch.ones(WIDTH)
    given = reprise.region(lambda x: (x * weight).sin())
    made = reprise.region(lambda x: forward_ad.make_dual(x * weight, ones))
    for _ in range(CALLS):
        x = torch.randn(WIDTH)
        assert torch.equal(given(x), (x * weight).sin())
        with forward_ad.dual_level():
            (tangent,) = forward_ad.unpack_dual(given(forward_ad.make_dual(x, ones)))[
                1:
            ]
            assert torch.equal(tangent, (x * weight).cos() * weight)
            assert torch.equal(forward_ad.unpack_dual(made(x)).tangent, ones)
    assert given.explain().replayed > 0
    assert made.explain().replayed == 0


def test_a_constant_of_the_host_that_is_read_late() -> None:
    """Views of it look at its form alone; what it holds counts as soon as it is read."""
    numbers = iter(range(2 * CALLS))

    def step(x: torch.Tensor) -> torch.Tensor:
        held = torch.tensor([float(counter[0])])
        wide = held.expand(WIDTH)
        return x + wide

    for changes in (False, True):
        counter = [0]
        fast = reprise.region(step, check="always" if changes else "never")
        for _ in range(CALLS):
            counter[0] = next(numbers) if changes else 7
            x = torch.randn(WIDTH)
            assert torch.equal(fast(x), x + counter[0])
        assert (fast.explain().replayed > 0) == (not changes), str(fast.explain())


def test_steps_on_several_threads() -> None:
    """One of them is recorded at a time, and the others are eager's meanwhile."""
    # Of forward mode, torch has one level for all threads.
    names = "equation", "inner_steps", "each_sample"
    worlds = [[(World(), World()) for _ in names] for _ in range(2)]

    def work(thread: int) -> None:
        for name, (plain, fast) in zip(names, worlds[thread], strict=True):
            expected, _ = played(REPLAYED[name], False, world=plain)
            found, _ = played(REPLAYED[name], True, world=fast)
            assert found == expected

    in_threads(work, 2)
