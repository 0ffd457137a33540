"""What training loops do besides forward, loss, backward and step: eager's bits after it."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator

import pytest
import reprise
import torch
from registry.hooks import hooks
from torch import nn
from torch.autograd import profiler_legacy
from torch.nn import functional
from watching import assert_same_bits, followed_share, rest, tensors, watched

STEPS = 70
BATCH, INPUTS, CLASSES = 8, 12, 4

#: A loop yields after each step what the program keeps of it, and at last its state.
Loop = Callable[[str], Iterator[object]]

LOOPS: dict[str, Loop] = {}


def loop(name: str) -> Callable[[Loop], Loop]:
    def add(made: Loop) -> Loop:
        LOOPS[name] = made
        return made

    return add


def net(device: str) -> nn.Sequential:
    """Batch norm and dropout: state that is written, and numbers that are drawn."""
    return nn.Sequential(
        nn.Linear(INPUTS, 32),
        nn.BatchNorm1d(32),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Linear(32, CLASSES),
    ).to(device)


def batches(device: str, rows: int = BATCH) -> Iterator[tuple[torch.Tensor, ...]]:
    draws = torch.Generator().manual_seed(11)
    for _ in range(STEPS):
        x = torch.randn(rows, INPUTS, generator=draws)
        label = torch.randint(CLASSES, (rows,), generator=draws)
        yield x.to(device), label.to(device)


def backward(model: nn.Module, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    loss = functional.cross_entropy(model(x), label)
    loss.backward()
    return loss.detach()


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)


def left(model: nn.Module, *optimizers: torch.optim.Optimizer) -> list[torch.Tensor]:
    """What a loop leaves behind: gradients, and all state."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    states = [tensors(optimizer.state_dict()) for optimizer in optimizers]
    return tensors([gradients, dict(model.state_dict()), states])


def run(made: Loop, device: str, session: reprise.Session | None) -> list[torch.Tensor]:
    torch.manual_seed(5)
    found: list[torch.Tensor] = []
    with torch.enable_grad():
        for kept in made(device):
            found += [tensor.detach() for tensor in tensors(kept)]
            if session:
                rest(session)
    state = torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state()
    return [*found, state]


# --- Gradients ---------------------------------------------------------------------


@loop("no gradient is ever dropped")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for x, label in batches(device):
        yield backward(model, x, label)
        optimizer.step()
    yield left(model, optimizer)


@loop("gradients of four batches are added up")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for number, (x, label) in enumerate(batches(device)):
        (functional.cross_entropy(model(x), label) / 4).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        yield []
    yield left(model, optimizer)


@loop("gradients are kept over their step")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for x, label in batches(device):
        optimizer.zero_grad()
        backward(model, x, label)
        yield [p.grad for p in model.parameters()]
        optimizer.step()
    yield left(model, optimizer)


@loop("gradients are replaced")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for x, label in batches(device):
        optimizer.zero_grad()
        yield backward(model, x, label)
        for p in model.parameters():
            assert p.grad is not None
            p.grad = p.grad.sign() * 0.01
        optimizer.step()
    yield left(model, optimizer)


@loop("gradients are clipped by norm")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for x, label in batches(device):
        optimizer.zero_grad()
        backward(model, x, label)
        yield nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    yield left(model, optimizer)


@loop("hooks on parameters and on results")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    seen: list[torch.Tensor] = []
    weight = model[0].weight
    weight.register_hook(lambda gradient: gradient * 0.5)
    weight.register_post_accumulate_grad_hook(
        lambda p: seen.append(p.grad.norm()) if p.grad is not None else None
    )
    model[4].register_full_backward_hook(
        lambda _module, _inputs, outputs: seen.append(outputs[0].sum())
    )
    for x, label in batches(device):
        optimizer.zero_grad()
        yield backward(model, x, label)
        optimizer.step()
    yield [seen, left(model, optimizer)]


@loop("the optimizer's step is taken within backward")
def _(device: str) -> Iterator[object]:
    model = net(device)
    each = {p: torch.optim.SGD([p], lr=0.01, momentum=0.9) for p in model.parameters()}

    def update(p: torch.Tensor) -> None:
        each[p].step()
        each[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    for x, label in batches(device):
        yield backward(model, x, label)
    yield left(model, *each.values())


@loop("backward twice")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for x, label in batches(device):
        optimizer.zero_grad()
        logits = model(x)
        functional.cross_entropy(logits, label).backward(retain_graph=True)
        logits.square().mean().backward()
        optimizer.step()
        yield logits
    yield left(model, optimizer)


@loop("gradients of gradients")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for x, _label in batches(device):
        optimizer.zero_grad()
        x.requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        loss = (slope.norm(dim=1) - 1).square().mean()
        loss.backward()
        optimizer.step()
        yield loss
    yield left(model, optimizer)


@loop("an error in the middle of a backward pass, now and then")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    fails = False

    def hook(_gradient: torch.Tensor) -> None:
        if fails:
            raise ArithmeticError

    model[4].weight.register_hook(hook)
    for number, (x, label) in enumerate(batches(device)):
        fails = number % 6 == 5
        optimizer.zero_grad()
        try:
            yield backward(model, x, label)
        except ArithmeticError:
            assert fails
        else:
            assert not fails
            optimizer.step()
    yield left(model, optimizer)


# --- Parameters ----------------------------------------------------------------------


@loop("a layer is frozen, and comes back")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for number, (x, label) in enumerate(batches(device)):
        model[0].requires_grad_(not 8 <= number < 18)
        optimizer.zero_grad()
        yield backward(model, x, label)
        optimizer.step()
    yield left(model, optimizer)


@loop("tied parameters, and a table with a gradient of few rows")
def _(device: str) -> Iterator[object]:
    table = nn.Embedding(20, 16, sparse=True, device=device)
    words = nn.Embedding(20, 16, device=device)
    head = nn.Linear(16, 20, bias=False, device=device)
    head.weight = words.weight
    model = nn.ModuleList([table, words, head])
    rows = torch.optim.SparseAdam(table.parameters(), lr=0.01)
    dense = torch.optim.SGD(words.parameters(), lr=0.1, momentum=0.9)
    draws = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        ids = torch.randint(20, (6,), generator=draws).to(device)
        rows.zero_grad()
        dense.zero_grad()
        h = torch.tanh(words(ids) + table(ids))
        loss = functional.cross_entropy(head(h), ids)
        loss.backward()
        dense.step()
        rows.step()
        yield loss
    few = table.weight.grad
    assert few is not None
    yield [words.weight.grad, few.to_dense(), left(nn.ModuleList(), rows, dense)]
    yield list(model.parameters())


@loop("data of a parameter is swapped")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for number, (x, label) in enumerate(batches(device)):
        if number % 9 == 8:
            model[4].weight.data = model[4].weight.data.clone() * 0.5
        optimizer.zero_grad()
        yield backward(model, x, label)
        optimizer.step()
    yield left(model, optimizer)


@loop("a group of parameters is added")
def _(device: str) -> Iterator[object]:
    model, head = net(device), nn.Linear(CLASSES, CLASSES, device=device)
    optimizer = adam(model)
    for number, (x, label) in enumerate(batches(device)):
        if number == 12:
            optimizer.add_param_group({"params": head.parameters(), "lr": 0.002})
        optimizer.zero_grad()
        yield backward(nn.Sequential(model, head), x, label)
        optimizer.step()
    yield [left(model, optimizer), left(head)]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(
        context: torch.autograd.function.FunctionCtx,
        x: torch.Tensor,
        weight: torch.Tensor,
    ) -> torch.Tensor:
        context.save_for_backward(x, weight)
        return x * weight.exp()

    @staticmethod
    def backward(
        context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x, weight = context.saved_tensors
        return gradient * weight.exp(), (gradient * x * weight.exp()).sum(0)


@loop("a function with a backward pass of its own")
def _(device: str) -> Iterator[object]:
    model = net(device)
    weight = torch.zeros(INPUTS, device=device, requires_grad=True)
    optimizer = torch.optim.AdamW([*model.parameters(), weight], lr=0.01)
    for x, label in batches(device):
        optimizer.zero_grad()
        yield backward(model, _Scaled.apply(x, weight), label)
        optimizer.step()
    yield [left(model, optimizer), weight]


# --- Optimizers ------------------------------------------------------------------------

_MORE_OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.01, foreach=True),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.01, foreach=True),
    "Rprop, for loop": lambda p: torch.optim.Rprop(p, lr=0.01, foreach=False),
    "Adadelta": lambda p: torch.optim.Adadelta(p, foreach=True),
    "Adadelta, for loop": lambda p: torch.optim.Adadelta(p, foreach=False),
    "Adamax, for loop": lambda p: torch.optim.Adamax(p, lr=0.01, foreach=False),
    "NAdam, for loop": lambda p: torch.optim.NAdam(p, lr=0.01, foreach=False),
    "RAdam, for loop": lambda p: torch.optim.RAdam(p, lr=0.01, foreach=False),
    "Adagrad, fused": lambda p: torch.optim.Adagrad(
        p,
        lr=0.01,
        fused=not p[0].is_cuda,  # there is none for CUDA
    ),
    "Adam, capturable": lambda p: torch.optim.Adam(p, lr=0.01, capturable=p[0].is_cuda),
    "Adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
    "AMSGrad": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True, foreach=True),
}


def _with_optimizer(
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
) -> Loop:
    def made(device: str) -> Iterator[object]:
        model = net(device)
        optimizer = make(list(model.parameters()))
        for x, label in batches(device):
            optimizer.zero_grad()
            yield backward(model, x, label)
            optimizer.step()
        yield left(model, optimizer)

    return made


for _name, _make in _MORE_OPTIMIZERS.items():
    loop(_name)(_with_optimizer(_make))


@loop("Muon for matrices, Adam for the rest")
def _(device: str) -> Iterator[object]:
    model = net(device)
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    first, second = torch.optim.Muon(matrices, lr=0.01), torch.optim.Adam(others)
    for x, label in batches(device):
        first.zero_grad()
        second.zero_grad()
        yield backward(model, x, label)
        first.step()
        second.step()
    yield left(model, first, second)


@loop("LBFGS, which calls the model as often as it likes")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    for x, label in batches(device):

        def again(x: torch.Tensor = x, label: torch.Tensor = label) -> torch.Tensor:
            optimizer.zero_grad()
            return backward(model, x, label)

        yield optimizer.step(again)
    yield left(model, optimizer)


@loop("two optimizers: a generator and a critic")
def _(device: str) -> Iterator[object]:
    maker, critic = net(device), nn.Linear(CLASSES, 1, device=device)
    first, second = adam(maker), torch.optim.RMSprop(critic.parameters(), lr=0.001)
    for x, label in batches(device):
        real = functional.one_hot(label, CLASSES).float()
        second.zero_grad()
        (critic(maker(x).detach()).mean() - critic(real).mean()).backward()
        second.step()
        first.zero_grad()
        loss = -critic(maker(x)).mean()
        loss.backward()
        first.step()
        yield loss
    yield [left(maker, first), left(critic, second)]


@loop("an average of the weights, and a scheduler")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=STEPS)
    average = torch.optim.swa_utils.AveragedModel(
        model,
        multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9),
        use_buffers=True,
    )
    for x, label in batches(device):
        optimizer.zero_grad()
        yield backward(model, x, label)
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
    yield [left(model, optimizer), left(average)]


@loop("automatic mixed precision, with steps that overflow")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**14, growth_interval=3)
    dtype = torch.float16 if device == "cuda" else torch.bfloat16
    for number, (x, label) in enumerate(batches(device)):
        optimizer.zero_grad()
        with torch.autocast(device, dtype):
            loss = functional.cross_entropy(model(x), label)
        if number % 7 == 6:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield loss
    assert scaler.get_scale() != 2.0**14
    yield left(model, optimizer)


# --- What comes between steps ------------------------------------------------------------


@loop("evaluation every five steps")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for number, (x, label) in enumerate(batches(device)):
        optimizer.zero_grad()
        yield backward(model, x, label)
        optimizer.step()
        if number % 5 == 4:
            model.eval()
            with torch.no_grad():
                yield [
                    model(other)
                    for other, _label in itertools.islice(batches(device), 3)
                ]
            model.train()
    yield left(model, optimizer)


@loop("the loss is read every third step")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    total = 0.0
    for number, (x, label) in enumerate(batches(device)):
        optimizer.zero_grad()
        loss = backward(model, x, label)
        if number % 3 == 2:
            total += loss.item()
        optimizer.step()
        yield torch.tensor(total)
    yield left(model, optimizer)


@loop("checkpoints are saved, and loaded again")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    saved: tuple[object, ...] = ()
    for number, (x, label) in enumerate(batches(device)):
        optimizer.zero_grad()
        yield backward(model, x, label)
        optimizer.step()
        if number == 8:
            saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        if number in (16, 22):
            model.load_state_dict(copy.deepcopy(saved[0]))
            optimizer.load_state_dict(copy.deepcopy(saved[1]))
    yield left(model, optimizer)


@loop("batches of other sizes")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for number, (x, label) in enumerate(batches(device)):
        rows = BATCH if number % 4 else BATCH - 3
        optimizer.zero_grad()
        yield backward(model, x[:rows], label[:rows])
        optimizer.step()
    yield left(model, optimizer)


@loop("a loop that stops early, and one like it that goes on")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for steps in (11, STEPS):
        for x, label in itertools.islice(batches(device), steps):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), label)
            yield loss
            if steps == 11 and loss.isnan():
                break
            loss.backward()
            optimizer.step()
        model.train(steps != 11)
    yield left(model, optimizer)


@loop("a step that is left behind its forward pass")
def _(device: str) -> Iterator[object]:
    model = net(device)
    optimizer = adam(model)
    for number, (x, label) in enumerate(batches(device)):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), label)
        yield loss
        if number % 6 == 5:
            continue
        loss.backward()
        optimizer.step()
    yield left(model, optimizer)


def _disturbed(disturb: Callable[[str, Callable[[], object]], object]) -> Loop:
    """Something happens between backward and the optimizer's step, or round that."""

    def made(device: str) -> Iterator[object]:
        model = net(device)
        optimizer = adam(model)
        for number, (x, label) in enumerate(batches(device)):
            optimizer.zero_grad()
            yield backward(model, x, label)
            if number in (13, 19):
                disturb(device, optimizer.step)
            else:
                optimizer.step()
        yield left(model, optimizer)

    return made


@loop("forgotten in mid-step")
@_disturbed
def _(_device: str, step: Callable[[], object]) -> None:
    reprise.reset()
    step()


@loop("switched off for half a step")
@_disturbed
def _(device: str, step: Callable[[], object]) -> None:
    with reprise.session(device, enabled=False):
        step()


@loop("out of memory in mid-step")
@_disturbed
def _(device: str, step: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError):
        torch.empty(1 << 50, device=device)
    step()


@pytest.mark.parametrize("name", LOOPS)
def test_loops_leave_eagers_bits(device: str, name: str) -> None:
    made = LOOPS[name]
    with watched(device) as session:
        found = run(made, device, session)
        told = str(session.explain())
    assert_same_bits(found, run(made, device, None), told)


@pytest.mark.gpu
def test_steps_beside_a_stream_that_brings_batches() -> None:
    """The stream of the model is told nothing that it has to stop for, and followed."""
    shares: list[float] = []

    def prefetched(session: reprise.Session | None) -> Iterator[object]:
        model = net("cuda")
        optimizer = adam(model)
        side = torch.cuda.Stream()
        queue = [(x.pin_memory(), label.pin_memory()) for x, label in batches("cpu")]

        def bring() -> tuple[torch.Tensor, ...]:
            with torch.cuda.stream(side):
                return tuple(t.to("cuda", non_blocking=True) for t in queue.pop(0))

        ready = bring()
        while queue:
            torch.cuda.current_stream().wait_stream(side)
            x, label = ready
            for tensor in ready:
                tensor.record_stream(torch.cuda.current_stream())
            ready = bring()
            before = session.stats() if session else None
            optimizer.zero_grad()
            yield backward(model, x, label)
            optimizer.step()
            if session and before:
                shares.append(followed_share(session, before))
        yield left(model, optimizer)

    with watched("cuda") as session:
        found = run(lambda _device: prefetched(session), "cuda", session)
        stats = session.stats()
        told = str(session.explain())
    assert_same_bits(found, run(lambda _device: prefetched(None), "cuda", None), told)
    assert stats.effects > 0, told
    assert max(shares) >= 0.95, (shares, told)
    assert "writes memory that its trace did not make" not in told


# --- Autograd's rules --------------------------------------------------------------------

PROFILED = 7  # steps at the end, of which one may overflow


def ops_of(
    made: Loop, device: str, session: reprise.Session | None
) -> tuple[list[tuple[str, str]], int]:
    """What is called in the last steps, in order, but for what hooked ops call; and how
    many ops of them replays have answered."""
    torch.manual_seed(5)
    hooked = {name.partition(".")[0] for name in hooks()}
    # torch.profiler would keep CUPTI for the rest of the process.
    profiler = profiler_legacy.profile(record_shapes=True)
    followed = 0
    with torch.enable_grad():
        for number, _kept in enumerate(made(device)):
            if session:
                rest(session)
            if number == STEPS - 1 - PROFILED:
                followed = session.stats().followed if session else 0
                profiler.__enter__()
            if number == STEPS - 1:
                profiler.__exit__(None, None, None)
    if session:
        followed = session.stats().followed - followed

    def within_op(event: torch.autograd.profiler_util.FunctionEvent) -> bool:
        parent = event.cpu_parent
        return parent is not None and (parent.name in hooked or within_op(parent))

    events = [
        event
        for event in profiler.function_events or []
        if not within_op(event) and event.name != "reprise::wait"
    ]
    events.sort(key=lambda event: event.time_range.start)
    return [(event.name, str(event.input_shapes)) for event in events], followed


@pytest.mark.parametrize(
    "name",
    [
        "no gradient is ever dropped",
        "gradients of four batches are added up",
        "gradients are kept over their step",
        "gradients are clipped by norm",
        "hooks on parameters and on results",
        "backward twice",
        "gradients of gradients",
        "tied parameters, and a table with a gradient of few rows",
        "a function with a backward pass of its own",
        "two optimizers: a generator and a critic",
        "automatic mixed precision, with steps that overflow",
    ],
)
def test_the_stream_of_ops_is_eagers(device: str, name: str) -> None:
    """A gradient is taken over, copied or added to in place as eager's is."""
    with watched(device) as session:
        found, followed = ops_of(LOOPS[name], device, session)
        told = str(session.explain())
    expected, _none = ops_of(LOOPS[name], device, None)
    assert len(expected) > 100
    assert found == expected
    assert followed > 0, told
