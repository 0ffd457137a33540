"""Values that Python reads in regions, behind random numbers and in backward passes inside."""

from __future__ import annotations

import copy
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 24
Fn = Callable[..., Any]


@pytest.fixture(autouse=True)
def checked_distributions() -> Iterator[None]:
    """As torch has them at first: Dynamo switches their checks off for the whole process."""
    of: Any = torch.distributions.Distribution
    before = of._validate_args
    of.set_default_validate_args(True)
    yield
    of.set_default_validate_args(before)


def generator_of(device: str) -> Any:
    return torch.cuda if device == "cuda" else torch


def gradients(net: nn.Module) -> list[torch.Tensor]:
    return [each.grad for each in net.parameters() if each.grad is not None]


def flattened(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result.detach()]
    if isinstance(result, (tuple, list)):
        return [each for part in result for each in flattened(part)]
    return [torch.tensor(float(result), dtype=torch.float64)]


def outcome_of(device: str, fn: Fn, x: torch.Tensor, seed: int) -> tuple[Any, ...]:
    """What it returns, or its error; and the states that it leaves generators in."""
    torch.manual_seed(seed)
    error, result = "", []
    try:
        result = flattened(fn(x))
    except (ValueError, RuntimeError) as raised:
        error = f"{type(raised).__name__}: {raised}"
    states = [torch.get_rng_state(), generator_of(device).get_rng_state()]
    after = torch.rand(3, device=device)
    return error, [*result, after], states


def check(
    device: str, fast: Fn, plain: Fn, calls: int = CALLS, rows: int = 4
) -> reprise.RegionReport:
    """Call both in turn, from the same states of the generators."""
    for call in range(calls):
        x = torch.randn(rows, 8, device=device)
        found = outcome_of(device, fast, x, call)
        expected = outcome_of(device, plain, x, call)
        assert found[0] == expected[0]
        assert_same_bits(found[1], expected[1])
        assert all(map(torch.equal, found[2], expected[2])), call
    of: Any = fast
    report: reprise.RegionReport = of.explain()
    return report


# --- Branches on what was drawn ---


def flips(x: torch.Tensor) -> torch.Tensor:
    y = x + torch.rand_like(x)
    if torch.rand(1, device=x.device) < 0.5:
        y = y * 2
    return y + torch.randn_like(x)


def spare_sample(x: torch.Tensor) -> torch.Tensor:
    """The host's generator keeps the second of two normal samples."""
    one = torch.normal(0.0, 1.0, (1,))
    if one > 0:
        return x + torch.randn(8).to(x.device) + torch.randn_like(x)
    return x * torch.randn_like(x)


def drops(x: torch.Tensor) -> torch.Tensor:
    y = nn.functional.dropout(x, 0.5)
    return y.cumsum(0) if y.sum() > 0 else torch.bernoulli(y.sigmoid())


def shuffles(x: torch.Tensor) -> torch.Tensor:
    order = torch.randperm(2, device=x.device)
    y = x[order.repeat(2)]
    return y if bool(order[0] == 0) else y + torch.rand_like(y)


def needs_a_constant(x: torch.Tensor) -> torch.Tensor:
    """One of the two ways does not need it behind the read."""
    c = torch.tensor([1.0, 2.0])
    d = c + torch.rand(2)
    if x.sum() > 0:
        return x + d.sum().to(x.device)
    return x * c.sum().to(x.device)


def views_and_writes(x: torch.Tensor) -> torch.Tensor:
    y = torch.rand_like(x)
    row, flat = y[0], y.view(-1)
    row += 1
    if y.sum() > y.numel() / 2 + row.numel():  # about every other time
        flat.mul_(2)
        return y + row
    return row.clone()


def twice(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        if torch.rand((), device=x.device) < 0.5:
            x = x + torch.randn_like(x)
    return x


@pytest.mark.parametrize(
    "fn",
    [
        flips,
        spare_sample,
        drops,
        shuffles,
        twice,
        needs_a_constant,
        views_and_writes,
    ],
    ids=lambda fn: fn.__name__,
)
@pytest.mark.parametrize("enabled", [False, True])
def test_branches_by_what_is_drawn(device: str, fn: Fn, enabled: bool) -> None:
    with reprise.session(device, enabled=enabled), torch.no_grad():
        report = check(device, reprise.region(fn), fn, 3 * CALLS)
    assert report.replayed >= CALLS, str(report)
    assert report.variants >= 2, str(report)
    assert report.reads >= 1 and "read" in str(report).splitlines()[0]


def test_branches_that_seldom_come_again(device: str) -> None:
    """More ways than there is room for: after some calls nearly all run their Python."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        for number in range(7):
            x = x + number
            if torch.rand((), device=x.device) < 0.5:
                x = x + torch.randn_like(x)
        return x

    fast: Any = reprise.region(fn)
    with torch.no_grad():
        report = check(device, fast, fn, 16 * CALLS)
    assert report.recorded < 4 * CALLS, str(report)


def test_a_number_that_is_new_each_time_is_refused(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(1, device=x.device).item()

    report = check(device, reprise.region(fn), fn)
    assert report.replayed == 0
    assert "hands data to the host, which is other data each time" in str(report)


def test_a_number_that_is_only_compared(device: str) -> None:
    """The reason says what helps, and it helps."""

    def by_number(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.rand(1, device=x.device).item() < 0.5 else x * 3

    def by_tensor(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.rand(1, device=x.device) < 0.5 else x * 3

    report = check(device, reprise.region(by_number), by_number)
    assert report.replayed == 0
    assert "compare the tensor itself" in " ".join(report.reasons), str(report)
    report = check(device, reprise.region(by_tensor), by_tensor)
    assert report.replayed >= CALLS // 2, str(report)


def test_a_generator_of_the_programs(device: str) -> None:
    """It is put back, and the default one with it."""
    own = [torch.Generator(device).manual_seed(3) for _ in range(2)]

    def drawing(generator: torch.Generator) -> Fn:
        def fn(x: torch.Tensor) -> torch.Tensor:
            y = torch.rand(4, device=x.device, generator=generator)
            x = x + torch.rand_like(x)
            return x * 2 if (y[0] < 0.5).item() else x * 3

        return fn

    fast = reprise.region(drawing(own[0]))
    report = check(device, fast, drawing(own[1]), 2 * CALLS)
    assert torch.equal(own[0].get_state(), own[1].get_state())
    assert report.replayed >= CALLS, str(report)


def test_draws_of_the_host_beside_those_of_a_device(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + torch.rand_like(x)
        return y * 2 if torch.rand(1) < 0.5 else y * 3 + torch.rand(1).to(x.device)

    report = check(device, reprise.region(fn), fn, 2 * CALLS)
    assert report.replayed >= CALLS, str(report)


@pytest.mark.parametrize("seldom", [False, True])
def test_numbers_that_vary_and_values_that_are_read(device: str, seldom: bool) -> None:
    """Each way is learned by itself, and floats vary in both, also where one comes seldom."""

    def fn(x: torch.Tensor, lr: float) -> torch.Tensor:
        y = x * lr + torch.rand_like(x)
        return y * lr if x.sum() > 0 else y - 1

    fast: Any = reprise.region(fn)
    for call in range(4 * CALLS):
        x = torch.rand(4, 8, device=device)
        if call % (9 if seldom else 2):
            x = -x
        found, expected = (
            outcome_of(
                device, lambda x, run=run, lr=1 / (call + 2): run(x, lr), x, call
            )
            for run in (fast, fn)
        )
        assert_same_bits(found[1], expected[1])
        assert all(map(torch.equal, found[2], expected[2]))
    report = fast.explain()
    assert report.replayed >= 3 * CALLS and report.variants == 2, str(report)


# --- Checks that nearly always hold ---


def sampled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    choice = torch.distributions.Categorical(logits=x)
    action = choice.sample()
    return action, choice.log_prob(action)


def reparametrized(x: torch.Tensor) -> torch.Tensor:
    normal = torch.distributions.Normal(x, x.exp())
    drawn = normal.rsample()
    again = torch.distributions.Laplace(drawn, 1 + drawn.square())
    return normal.log_prob(drawn) + again.rsample()


@pytest.mark.parametrize("fn", [sampled, reparametrized], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("grad", [False, True])
def test_arguments_of_distributions_are_checked(
    device: str, fn: Fn, grad: bool
) -> None:
    """A replay finds what is wrong with them, and torch's own error is raised."""
    fast: Any = reprise.region(fn)
    for call in range(CALLS):
        x = torch.randn(4, 8, device=device, requires_grad=grad)
        if call % 10 == 9:
            x = x * torch.tensor(float("nan"))
        found = outcome_of(device, fast, x, call)
        expected = outcome_of(device, fn, x, call)
        assert found[0] == expected[0] and bool(found[0]) == (call % 10 == 9)
        assert_same_bits(found[1], expected[1])
        assert all(map(torch.equal, found[2], expected[2]))
    assert fast.explain().replayed >= CALLS - 6, str(fast.explain())


def test_gradients_of_what_was_sampled(device: str) -> None:
    nets = [nn.Linear(8, 4).to(device)]
    nets.append(copy.deepcopy(nets[0]))
    acting: list[Fn] = [lambda x, net=net: sampled(net(x)) for net in nets]
    fast: Any = reprise.region(acting[0])
    for call in range(CALLS):
        x = torch.randn(4, 8, device=device)
        for act, net in zip((fast, acting[1]), nets, strict=True):
            torch.manual_seed(call)
            net.zero_grad()
            act(x)[1].sum().backward()
        assert_same_bits(gradients(nets[0]), gradients(nets[1]))
    assert fast.explain().replayed >= CALLS - 6, str(fast.explain())


# --- Backward passes inside ---


def learner(device: str, seed: int, fn: Fn) -> tuple[nn.Module, Any, Fn]:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.Linear(8, 4)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    return net, optimizer, lambda x: fn(net, optimizer, x)


def by_cumprod(net: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    """Autograd's formula reads whether a factor is zero."""
    loss = torch.cumprod(net(x), 1).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def by_gradients(net: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    """A step is left out where a gradient is large."""
    optimizer.zero_grad()
    loss = net(x).square().mean() * (1 + torch.rand((), device=x.device))
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    if norm < 0.6:
        optimizer.step()
    return norm.detach()


def by_loss(net: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    loss = net(x).square().mean()
    if not torch.isfinite(loss):
        raise ValueError("the loss is not finite")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@pytest.mark.parametrize(
    "fn", [by_cumprod, by_gradients, by_loss], ids=lambda fn: fn.__name__
)
@pytest.mark.parametrize("enabled", [False, True])
def test_steps_that_read(device: str, fn: Fn, enabled: bool) -> None:
    learners = [learner(device, 1, fn) for _ in range(2)]
    fast: Any = reprise.region(learners[0][2])
    with reprise.session(device, enabled=enabled):
        for call in range(2 * CALLS):
            x = torch.randn(4, 8, device=device)
            if call in (20, 30):
                x[0, 0] = float("nan")
            found = outcome_of(device, fast, x, call)
            expected = outcome_of(device, learners[1][2], x, call)
            assert found[0] == expected[0]
            assert_same_bits(found[1], expected[1])
            assert all(map(torch.equal, found[2], expected[2]))
            if call in (20, 30) and fn is not by_loss:  # all weights are nan
                for net, optimizer, _ in learners:
                    with torch.no_grad():
                        for each in net.parameters():
                            each.copy_(torch.full_like(each, 0.1))
                        for kept in optimizer.state.values():
                            kept["exp_avg"].zero_()
                            kept["exp_avg_sq"].zero_()
            for of in (lambda net: list(net.parameters()), gradients):
                assert_same_bits(of(learners[0][0]), of(learners[1][0]))
    assert fast.explain().replayed >= CALLS, str(fast.explain())


def test_steps_of_a_scaler(device: str) -> None:
    """It reads whether a gradient is infinite, and leaves such a step out."""
    nets = [learner(device, 2, by_loss)[0] for _ in range(2)]

    def scaled(net: nn.Module) -> tuple[Any, Fn]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler(device, growth_interval=5)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        return scaler, step

    scalers, steps = zip(*map(scaled, nets), strict=True)
    fast: Any = reprise.region(steps[0])
    for call in range(2 * CALLS):
        x = torch.randn(4, 8, device=device)
        if call % 9 == 8:
            x[0] = float("inf")
        found, expected = (outcome_of(device, run, x, call) for run in (fast, steps[1]))
        assert_same_bits(found[1], expected[1])
        assert all(map(torch.equal, found[2], expected[2]))
        assert scalers[0].get_scale() == scalers[1].get_scale()
        assert_same_bits(list(nets[0].parameters()), list(nets[1].parameters()))
    assert fast.explain().replayed >= CALLS, str(fast.explain())


def test_gradients_that_were_there_stay(device: str) -> None:
    """The run that reads another value has dropped none, and added to none."""
    nets = [nn.Linear(8, 4).to(device)]
    nets.append(copy.deepcopy(nets[0]))

    def stepping(net: nn.Module) -> Fn:
        def step(x: torch.Tensor) -> torch.Tensor:
            kept = net.weight.grad
            net.zero_grad()
            loss = (net(x) + torch.rand(4, device=x.device)).square().mean()
            loss.backward()
            if loss > 1.5:  # takes back what there was
                net.weight.grad = kept
            return loss.detach()

        return step

    fast: Any = reprise.region(stepping(nets[0]))
    plain = stepping(nets[1])
    for call in range(2 * CALLS):
        x = torch.randn(4, 8, device=device)
        found, expected = (outcome_of(device, run, x, call) for run in (fast, plain))
        assert_same_bits(found[1], expected[1])
        assert_same_bits(gradients(nets[0]), gradients(nets[1]))


# --- What stays, and refuses a read ---


@pytest.mark.parametrize("where", ["weight", "gradient", "statistics", "function"])
def test_reads_behind_what_stays_are_refused(device: str, where: str) -> None:
    nets = [nn.BatchNorm1d(8).to(device) for _ in range(2)]
    total = [torch.zeros(8, device=device, requires_grad=True) for _ in range(2)]

    def fn_of(net: nn.Module, total: torch.Tensor) -> Fn:
        @reprise.eager
        def counted(x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand_like(x)

        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x + torch.rand_like(x)
            if where == "weight":
                with torch.no_grad():
                    total.add_(y.sum(0))
            elif where == "gradient":  # of the call before, to which it adds
                (total * y).sum().backward()
            elif where == "statistics":
                y = net(y).detach()
            else:
                with torch.no_grad():
                    y = counted(y)
            return y * 2 if (y.sum() > 0).item() else y * 3

        return fn

    fns = [fn_of(*each) for each in zip(nets, total, strict=True)]
    for each in total:
        each.grad = torch.zeros_like(each)
    report = check(device, reprise.region(fns[0]), fns[1])
    assert report.replayed == 0, str(report)
    assert_same_bits(list(nets[0].buffers()), list(nets[1].buffers()))
    assert_same_bits([total[0].detach()], [total[1].detach()])
    assert_same_bits([total[0].grad], [total[1].grad])
    assert "hands data to the host, behind" in " ".join(report.reasons), str(report)
    assert "test_region_reads.py" in str(report)


def test_the_sentence_names_what_helps(device: str) -> None:
    """Behind a step: of what torch's distributions read, and of what the program does."""
    net = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def learn(x: torch.Tensor, checked: bool) -> torch.Tensor:
        net(x).sum().backward()
        optimizer.step()
        with torch.no_grad():
            if checked:
                return torch.distributions.Normal(net(x), 1.0).sample()
            return x if net(x).sum() > 0 else -x

    for checked in (False, True):
        fast: Any = reprise.region(lambda x, c=checked: learn(x, c))
        for _ in range(6):
            fast(torch.randn(4, 8, device=device))
        report = " ".join(str(fast.explain()).split())
        assert "behind a write to memory from outside" in report, report
        assert "has filled) by aten::" in report, report
        assert ("validate_args=False" in report) is checked, report
        assert ("read it before the callable writes" in report) is not checked, report
        assert "fused=True" not in report, report


# --- What a second run would do twice ---


def test_hooks_of_saved_tensors_are_called_once(device: str) -> None:
    """They are Python of the program's, which a replay calls: it does not begin again."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = nn.functional.dropout(x * w, 0.5)
        return (y * y).sum() if (y.sum() > 0).item() else (y**3).sum()

    fast: Any = reprise.region(fn)
    for call in range(CALLS):
        x, found = torch.randn(8, device=device), []
        for run in (fast, fn):
            w = torch.ones(8, device=device, requires_grad=True)
            packed: list[tuple[int, ...]] = []

            def pack(each: torch.Tensor, to: Any = packed) -> torch.Tensor:
                to.append(tuple(each.shape))
                return each

            torch.manual_seed(call)
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda each: each):
                run(x, w).backward()
            found.append((w.grad, packed))
        assert found[0][1] == found[1][1]
        assert_same_bits([found[0][0]], [found[1][0]])


def test_a_warning_comes_once(device: str) -> None:
    """Of an operator before a read: the run that went back does not tell of it."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = torch.rand(1, device=x.device).var()  # of one value
        return x * y if torch.rand(1, device=x.device) < 0.5 else x + y

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = check(device, reprise.region(fn), fn, 2 * CALLS)
    assert report.replayed >= CALLS, str(report)
    assert len(told) == 4 * CALLS


def test_attributes_are_set_once(device: str) -> None:
    class Model:
        def __init__(self) -> None:
            self.calls = 0
            self.last: torch.Tensor | None = None

        def step(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            y = x + torch.rand_like(x)
            self.last = y * 2 if torch.rand(1, device=x.device) < 0.5 else y * 3
            return self.last + 1

    models = [Model(), Model()]
    fast: Any = reprise.region(models[0].step)
    with torch.no_grad():
        for call in range(3 * CALLS):
            x = torch.randn(4, 8, device=device)
            found = outcome_of(device, fast, x, call)
            expected = outcome_of(device, models[1].step, x, call)
            assert_same_bits(found[1], expected[1])
            assert models[0].calls == models[1].calls
            assert_same_bits([models[0].last], [models[1].last])
    assert fast.explain().replayed >= CALLS, str(fast.explain())


def test_regions_within_functions_of_regions(device: str) -> None:
    """The inner one goes back to where it began, not the outer one."""
    inner: Any = reprise.region(flips)

    @reprise.eager
    def within(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + 0

    def outer(x: torch.Tensor) -> torch.Tensor:
        return within(x + torch.rand_like(x)) * 2

    def plain(x: torch.Tensor) -> torch.Tensor:
        return (flips(x + torch.rand_like(x)) + 0) * 2

    with torch.no_grad():
        report = check(device, reprise.region(outer), plain, 3 * CALLS)
    assert report.replayed >= CALLS, str(report)
    assert inner.explain().replayed >= CALLS, str(inner.explain())


@pytest.mark.parametrize("region_has_its_own", [False, True])
def test_threads_that_draw_from_another_generator(
    device: str, region_has_its_own: bool
) -> None:
    """A thread beside it draws: none of its numbers comes twice."""
    stop, drawn = threading.Event(), []
    own = torch.Generator(device).manual_seed(1)
    of_thread = None if region_has_its_own else torch.Generator(device).manual_seed(1)

    def draw() -> None:
        while not stop.is_set():
            drawn.append(torch.rand(1, device=device, generator=of_thread))

    def fn(x: torch.Tensor) -> torch.Tensor:
        if not region_has_its_own:
            return flips(x)
        y = torch.rand(4, device=device, generator=own)
        return x * 2 if y[0] < 0.5 else x * 3

    fast: Any = reprise.region(fn)
    torch.manual_seed(1)
    thread = threading.Thread(target=draw)
    thread.start()
    try:
        with torch.no_grad():
            for _ in range(40 * CALLS):
                fast(torch.ones(4, 8, device=device))
    finally:
        stop.set()
        thread.join()
    assert fast.explain().replayed >= CALLS, str(fast.explain())
    again = torch.Generator(device).manual_seed(1)
    assert_same_bits(
        drawn, [torch.rand(1, device=device, generator=again) for _ in drawn]
    )


def test_copies_of_a_region(device: str) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).to(device)

    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.net(x)
            return y * 2 if y.sum() > 0 else y * 3

    plain = Reading()
    fast = reprise.region(Reading())
    for each in (fast, copy.deepcopy(fast)):
        report = check(device, each, plain, 2 * CALLS)
        assert report.replayed >= CALLS, str(report)


# --- Random programs ---


def steps(draw: random.Random) -> Iterator[tuple[str, int]]:
    kinds = ["add", "rand", "dropout", "write", "branch", "branch", "host", "check"]
    for _ in range(draw.randint(4, 12)):
        yield draw.choice(kinds), draw.randint(0, 3)
    yield "keep", 0


def random_program(seed: int, kept: torch.Tensor) -> Fn:
    """Computes, draws, reads and branches; at the end it writes `kept`."""
    plan = list(steps(random.Random(seed)))

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x
        for kind, number in plan:
            if kind == "add":
                y = y + number
            elif kind == "rand":
                y = y + torch.rand_like(y)
            elif kind == "dropout":
                y = nn.functional.dropout(y, 0.3)
            elif kind == "write":
                y = y.clone()
                y[number].normal_()
            elif kind == "branch" and y[number].sum() > 1:
                y = y - torch.rand_like(y[0])
            elif kind == "host" and torch.rand(1).item() < 0.2:
                y = y + torch.randn(8).to(y.device)
            elif kind == "check" and (y.abs() > 6).any():
                raise ValueError(f"too large: {kind} {number}")
        with torch.no_grad():
            kept.add_(y)
        return y * 2

    return fn


@pytest.mark.parametrize("enabled", [False, True])
def test_random_programs_that_read(device: str, enabled: bool) -> None:
    replayed = 0
    with reprise.session(device, enabled=enabled), torch.no_grad():
        for seed in range(16):
            kept = [torch.zeros(4, 8, device=device) for _ in range(2)]
            fast: Any = reprise.region(random_program(seed, kept[0]))
            report = check(device, fast, random_program(seed, kept[1]), 2 * CALLS)
            assert_same_bits([kept[0]], [kept[1]])
            replayed += report.replayed
    assert replayed > 8 * CALLS
