"""States of random generators that a region's callable takes, and sets again."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from watching import assert_same_bits

WIDTH = 8
CALLS = 14
OTHER = "a random generator is set to a state that was not taken"

Fn = Callable[..., Any]


def taken(device: str) -> torch.Tensor:
    return torch.get_rng_state() if device == "cpu" else torch.cuda.get_rng_state()


def put(device: str, state: torch.Tensor) -> None:
    if device == "cpu":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state)


def forked(device: str) -> contextlib.AbstractContextManager[None]:
    return torch.random.fork_rng([] if device == "cpu" else [0])


def states(device: str) -> list[torch.Tensor]:
    """Of the default generators."""
    found = [torch.get_rng_state()]
    return found if device == "cpu" else [*found, torch.cuda.get_rng_state()]


def result_of(fn: Fn, *given: Any) -> Any:
    """What it returns, or the error that it raises."""
    try:
        return fn(*given)
    except (RuntimeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


def assert_alike(
    device: str, fast: Any, plain: Fn, given: tuple[Any, ...], seed: int
) -> None:
    """Both, from one state of the generators: the same bits, and the same state behind it."""
    found = []
    for fn in (fast, plain):
        torch.manual_seed(seed)
        result = result_of(fn, *given)
        found.append((result, states(device)))
    (mine, my_states), (other, other_states) = found
    assert type(mine) is type(other), mine
    if isinstance(other, str):
        assert mine == other
    else:
        mine, other = ([x] if isinstance(x, torch.Tensor) else x for x in (mine, other))
        assert_same_bits(list(mine), list(other))
    assert_same_bits(my_states, other_states)


def check(device: str, fn: Fn, calls: int = CALLS) -> reprise.RegionReport:
    """Of a callable without a state of its own."""
    fast: Any = reprise.region(fn)
    for call in range(calls):
        assert_alike(device, fast, fn, (torch.randn(3, WIDTH, device=device),), call)
    report: reprise.RegionReport = fast.explain()
    return report


# --- Checkpointing ---


class Block(nn.Module):
    def __init__(self, drops: float) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 2 * WIDTH)
        self.last = nn.Linear(2 * WIDTH, WIDTH)
        self.drops = drops

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.dropout(torch.tanh(self.first(x)), self.drops, self.training)
        return functional.dropout(self.last(y), self.drops, self.training) + x


class Net(nn.Module):
    """Blocks of which each is computed again in the backward pass."""

    def __init__(self, drops: float, blocks: int = 3, **options: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(drops) for _ in range(blocks))
        self.options = {"use_reentrant": False, **options}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return x


class Sequential(nn.Module):
    def __init__(self, drops: float) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(drops) for _ in range(4)))

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint_sequential(self.blocks, 2, x, use_reentrant=False)


class Nested(nn.Module):
    """A checkpoint within another one, with draws around both."""

    def __init__(self, drops: float) -> None:
        super().__init__()
        self.outer, self.inner = Block(drops), Block(drops)
        self.drops = drops

    def block(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(self.outer(x), self.drops)
        y: torch.Tensor = checkpoint(self.inner, x, use_reentrant=False)
        return functional.dropout(y, self.drops)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(x, self.drops)
        y: torch.Tensor = checkpoint(self.block, x, use_reentrant=False)
        return functional.dropout(y, self.drops)


NETS: dict[str, Callable[[], nn.Module]] = {
    "draws": lambda: Net(0.3),
    "no_draws": lambda: Net(0.0),
    "not_preserved": lambda: Net(0.3, preserve_rng_state=False),
    "not_stopped": lambda: Net(0.3, early_stop=False),
    "debugged": lambda: Net(0.3, determinism_check="none"),
    "sequential": lambda: Sequential(0.3),
    "nested": lambda: Nested(0.3),
}


class Trainer:
    """A network and the step that trains it."""

    def __init__(self, net: nn.Module, device: str, *, to_none: bool = True) -> None:
        self.net = net.to(device)
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        self.to_none = to_none

    def step(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=self.to_none)
        loss = functional.mse_loss(self.net(x), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def state(self) -> list[torch.Tensor]:
        parameters = list(self.net.parameters())
        gradients = [each.grad for each in parameters if each.grad is not None]
        buffers = list(self.net.buffers())
        return [each.detach() for each in (*parameters, *gradients, *buffers)]


def trainers(
    device: str, make: Callable[[], nn.Module], **options: Any
) -> tuple[Trainer, Trainer]:
    torch.manual_seed(3)
    net = make()
    return Trainer(copy.deepcopy(net), device, **options), Trainer(
        net, device, **options
    )


def train(device: str, plain: Trainer, ours: Trainer, fast: Any, calls: int) -> None:
    for call in range(calls):
        x, target = (torch.randn(3, WIDTH, device=device) for _ in range(2))
        seed = int(torch.randint(1000, ()))
        assert_alike(device, fast, plain.step, (x, target), seed + call)
        assert_same_bits(ours.state(), plain.state())


@pytest.mark.parametrize("name", NETS)
def test_a_checkpoint_in_a_training_step(device: str, name: str) -> None:
    plain, ours = trainers(device, NETS[name])
    fast: Any = reprise.region(ours.step)
    train(device, plain, ours, fast, CALLS)
    assert fast.explain().replayed >= CALLS - 5, str(fast.explain())


@pytest.mark.usefixtures("replaying")
@pytest.mark.parametrize("name", ["draws", "no_draws", "nested"])
def test_a_checkpoint_while_replays_run_ahead(device: str, name: str) -> None:
    plain, ours = trainers(device, NETS[name])
    fast: Any = reprise.region(ours.step)
    train(device, plain, ours, fast, 3 * CALLS)
    assert fast.explain().replayed >= 3 * CALLS - 6, str(fast.explain())


def test_gradients_that_are_added_to(device: str) -> None:
    """The backward pass writes before it computes blocks again, each in a fork_rng."""
    plain, ours = trainers(device, NETS["draws"], to_none=False)
    fast: Any = reprise.region(ours.step)
    train(device, plain, ours, fast, CALLS)
    assert fast.explain().replayed >= CALLS - 5, str(fast.explain())


def test_training_and_evaluation_in_turn(device: str) -> None:
    plain, ours = trainers(device, NETS["draws"])
    fast: Any = reprise.region(ours.step)
    for turn in range(6):
        for each in (plain, ours):
            each.net.train(turn % 2 == 0)
        train(device, plain, ours, fast, 4)
    assert fast.explain().replayed >= 12, str(fast.explain())


def test_a_copy_of_the_net(device: str) -> None:
    """A region of each; the generator is everybody's."""
    plain, ours = trainers(device, NETS["draws"])
    fast: Any = reprise.region(ours.step)
    train(device, plain, ours, fast, 6)
    others = copy.deepcopy(plain), copy.deepcopy(ours)
    another: Any = reprise.region(others[1].step)
    train(device, *others, another, 8)
    train(device, plain, ours, fast, 4)
    assert fast.explain().replayed >= 5, str(fast.explain())
    assert another.explain().replayed >= 3, str(another.explain())


# --- States that are taken, set and handed out ---


def drawn_twice(device: str) -> Fn:
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        before = torch.rand_like(x)
        state = taken(device)
        first = functional.dropout(x, 0.5)
        put(device, state)
        return [before, first, functional.dropout(x, 0.5), torch.rand_like(x)]

    return fn


def in_forks(device: str) -> Fn:
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        with forked(device):
            first = torch.rand_like(x)
            with forked(device):
                second = torch.rand_like(x)
            third = torch.rand_like(x)
        return [first, second, third, torch.rand_like(x)]

    return fn


def out_of_order(device: str) -> Fn:
    """States are set in another order than they were taken in, and one twice."""

    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        kept, drawn = [], []
        for _ in range(3):
            kept.append(taken(device))
            drawn.append(torch.rand_like(x))
        for which in (1, 0, 2, 2):
            put(device, kept[which])
            drawn.append(torch.randn_like(x))
        return drawn

    return fn


def handed_out(device: str) -> Fn:
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        first = torch.rand_like(x)
        state = taken(device)
        return [first, state, torch.rand_like(x), state.clone().float().mean()]

    return fn


FOLLOWED = [drawn_twice, in_forks, out_of_order, handed_out]


@pytest.mark.parametrize("make", FOLLOWED)
def test_states_are_followed(device: str, make: Callable[[str], Fn]) -> None:
    report = check(device, make(device))
    assert report.replayed >= CALLS - 3, str(report)


@pytest.mark.usefixtures("replaying")
@pytest.mark.parametrize("make", FOLLOWED)
def test_states_while_replays_run_ahead(device: str, make: Callable[[str], Fn]) -> None:
    report = check(device, make(device), 3 * CALLS)
    assert report.replayed >= 3 * CALLS - 3, str(report)


def test_a_generator_of_the_programs_own(device: str) -> None:
    """Its state goes back; that of the default one moves on."""

    def using(generator: torch.Generator) -> Fn:
        def fn(x: torch.Tensor) -> list[torch.Tensor]:
            state = generator.get_state()
            first = torch.rand(3, device=device, generator=generator)
            generator.set_state(state)
            second = torch.rand(3, device=device, generator=generator)
            return [x + 1, first, second, torch.rand(2, device=device)]

        return fn

    own, other = (torch.Generator(device).manual_seed(5) for _ in range(2))
    fast: Any = reprise.region(using(own))
    plain = using(other)
    for call in range(CALLS):
        x = torch.randn(3, device=device)
        assert_alike(device, fast, plain, (x,), call)
        assert_same_bits([own.get_state()], [other.get_state()])
    assert fast.explain().replayed >= CALLS - 3, str(fast.explain())


def test_a_state_that_is_kept_for_the_program(device: str) -> None:
    class Keeps:
        state: torch.Tensor | None = None

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            y = functional.dropout(x, 0.5)
            self.state = taken(device)
            return y + torch.rand_like(x)

    plain, ours = Keeps(), Keeps()
    fast: Any = reprise.region(ours.__call__)
    for call in range(CALLS):
        x = torch.randn(3, device=device)
        assert_alike(device, fast, plain, (x,), call)
        assert ours.state is not None and plain.state is not None
        assert_same_bits([ours.state], [plain.state])
    assert fast.explain().replayed >= CALLS - 6, str(fast.explain())


def test_a_number_of_a_state_that_is_read(device: str) -> None:
    """Read and compared, as any value: what is drawn behind it goes by it."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        state = taken(device)
        x = functional.dropout(x, 0.5)
        put(device, state)
        odd = bool(state.long().sum() % 2)
        return x + torch.rand_like(x) if odd else x - 1

    report = check(device, fn, 30)
    assert report.replayed >= 8, str(report)


def test_another_value_that_is_read_behind_it(device: str) -> None:
    """The run goes back, and draws what it would have drawn."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        with forked(device):
            y = functional.dropout(x, 0.5)
        z = torch.rand_like(x)
        if bool((y + z).sum() > 0):
            return y + torch.rand_like(x)
        return y * z

    report = check(device, fn, 40)
    assert report.replayed >= 20, str(report)


def test_a_forward_pass_keeps_its_operators(device: str) -> None:
    """Where operators have nodes of their own, nothing runs again."""
    torch.manual_seed(3)
    plain = Block(0.4).to(device)
    ours = copy.deepcopy(plain)

    def forward(block: nn.Module) -> Fn:
        def fn(x: torch.Tensor) -> torch.Tensor:
            with forked(device):
                noise = torch.randn_like(x)
            result: torch.Tensor = block(x + noise)
            return result

        return fn

    fast: Any = reprise.region(forward(ours))
    slow = forward(plain)
    for call in range(CALLS):
        x = torch.randn(3, WIDTH, device=device)
        found = []
        for fn, block in ((fast, ours), (slow, plain)):
            torch.manual_seed(call)
            block.zero_grad()
            result = fn(x)
            result.square().sum().backward()
            found.append(
                [
                    result.detach(),
                    *(p.grad for p in block.parameters()),
                    *states(device),
                ]
            )
        assert_same_bits(*found)
    report = fast.explain()
    assert report.replayed >= CALLS - 5, str(report)
    assert report.backward == 0
    assert any("set once more" in each for each in report.reasons), str(report)


# --- What is refused ---


def of_another_call(device: str) -> Fn:
    kept = [taken(device)]

    def fn(x: torch.Tensor) -> torch.Tensor:
        put(device, kept[0])
        return x + torch.rand_like(x)

    return fn


def given_as_an_argument(device: str) -> Fn:
    def fn(x: torch.Tensor, state: Any = None) -> torch.Tensor:
        put(device, taken(device).clone() if state is None else state)
        return x + torch.rand_like(x)

    return fn


def that_was_written(device: str) -> Fn:
    def fn(x: torch.Tensor) -> torch.Tensor:
        state = taken(device)
        state[:].add_(0)
        put(device, state)
        return x + torch.rand_like(x)

    return fn


def that_numpy_wrote(device: str) -> Fn:
    def fn(x: torch.Tensor) -> torch.Tensor:
        state = taken(device)
        state.numpy()[-1:] = 0
        put(device, state)
        return x + torch.rand_like(x)

    return fn


def of_another_generator(device: str) -> Fn:
    other = torch.Generator(device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        other.set_state(taken(device))
        return x + torch.rand(x.shape, device=device, generator=other)

    return fn


def that_is_none(device: str) -> Fn:
    def fn(x: torch.Tensor) -> torch.Tensor:
        state = taken(device)
        with contextlib.suppress(RuntimeError):
            put(device, state[:3])
        return x + torch.rand_like(x)

    return fn


def seeded(device: str) -> Fn:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with forked(device):
            torch.manual_seed(5)
            y = torch.rand_like(x)
        return x + y

    return fn


def unpickled(device: str) -> Fn:
    generator = torch.Generator(device)
    state = generator.__reduce__()[2]

    def fn(x: torch.Tensor) -> torch.Tensor:
        generator.__setstate__(state)  # type: ignore[attr-defined]
        return x + torch.rand(x.shape, device=device, generator=generator)

    return fn


REFUSED = {
    of_another_call: OTHER,
    given_as_an_argument: OTHER,
    that_was_written: OTHER,
    that_numpy_wrote: "memory is used without an op",
    of_another_generator: OTHER,
    that_is_none: "a random generator is set",
    seeded: "a random generator is set",
    unpickled: "a random generator is set",
}


@pytest.mark.parametrize("make", REFUSED)
def test_what_is_no_state_of_the_call_is_refused(
    device: str, make: Callable[[str], Fn]
) -> None:
    report = check(device, make(device))
    assert report.replayed == 0, str(report)
    assert any(REFUSED[make] in each for each in report.reasons), str(report)


def test_a_forward_pass_that_begins_to_set(device: str) -> None:
    """In later calls than those that have become one node."""
    torch.manual_seed(3)
    plain = Block(0.4).to(device)
    ours = copy.deepcopy(plain)

    def forward(block: nn.Module) -> Fn:
        def fn(x: torch.Tensor, forks: torch.Tensor) -> torch.Tensor:
            if forks.item():
                with forked(device):
                    x = x + torch.randn_like(x)
            result: torch.Tensor = block(x)
            return result

        return fn

    fast: Any = reprise.region(forward(ours))
    slow = forward(plain)
    for call in range(2 * CALLS):
        x = torch.randn(3, WIDTH, device=device)
        found = []
        for fn, block in ((fast, ours), (slow, plain)):
            torch.manual_seed(call)
            block.zero_grad()
            result = fn(x, torch.tensor(call >= CALLS))
            result.square().sum().backward()
            found.append(
                [
                    result.detach(),
                    *(p.grad for p in block.parameters()),
                    *states(device),
                ]
            )
        assert_same_bits(*found)
    assert fast.explain().backward > 0, str(fast.explain())


# --- Errors ---


def picked(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table[index]


class Counting:
    """Writes, and then picks by an index, which may be none of the table's."""

    def __init__(
        self, inside: Callable[[Counting, torch.Tensor], torch.Tensor]
    ) -> None:
        self.count = torch.zeros(())
        self.table = torch.arange(5.0)
        self.inside = inside

    def __call__(self, index: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        torch.rand(2)
        y = self.inside(self, index)
        return y + torch.rand(2)


def in_one(c: Counting, index: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng([]):
        y = torch.rand(2)
        return y + picked(c.table, index)


def in_two(c: Counting, index: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng([]):
        y = torch.rand(2)
        with torch.random.fork_rng([]):
            y = y + torch.rand(2)
            y = y + picked(c.table, index)
        return y + torch.rand(2)


def behind_one(c: Counting, index: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng([]):
        y = torch.rand(2)
    return y + picked(c.table, index)


def before_one(c: Counting, index: torch.Tensor) -> torch.Tensor:
    y = torch.rand(2) + picked(c.table, index)
    with torch.random.fork_rng([]):
        return y + torch.rand(2)


def without_one(c: Counting, index: torch.Tensor) -> torch.Tensor:
    """Nothing puts the generator back behind an error."""
    state = torch.get_rng_state()
    y = torch.rand(2) + picked(c.table, index)
    torch.set_rng_state(state)
    return y


def by_a_manager(c: Counting, index: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng([]), put_back():
        y = torch.rand(2)
        return y + picked(c.table, index)


def by_hand(c: Counting, index: torch.Tensor) -> torch.Tensor:
    state = torch.get_rng_state()
    try:
        return torch.rand(2) + picked(c.table, index)
    finally:
        torch.set_rng_state(state)


@contextlib.contextmanager
def put_back() -> Iterator[None]:
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


@pytest.mark.parametrize(
    ("inside", "replayed"),
    [
        (in_one, True),
        (in_two, True),
        (behind_one, True),
        (before_one, True),
        (without_one, True),
        (by_a_manager, False),
        (by_hand, False),
    ],
)
def test_errors_behind_a_write(
    inside: Callable[[Counting, torch.Tensor], torch.Tensor], replayed: bool
) -> None:
    """The generator is where eager leaves it."""
    plain, ours = Counting(inside), Counting(inside)
    fast: Any = reprise.region(ours.__call__)
    for call, good in enumerate("gggggbgbgg"):
        index = torch.tensor([1, 2] if good == "g" else [1, 7])
        assert_alike("cpu", fast, plain, (index,), call)
        assert_same_bits([ours.count], [plain.count])
    assert (fast.explain().replayed > 0) == replayed, str(fast.explain())


def test_errors_before_any_write() -> None:
    def fn(index: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng([]):
            y = torch.rand(2)
            y = y + torch.arange(5.0)[index]
        return y + torch.rand(2)

    fast: Any = reprise.region(fn)
    for call, good in enumerate("gggggbgbgg"):
        index = torch.tensor([1, 2] if good == "g" else [1, 7])
        assert_alike("cpu", fast, fn, (index,), call)
    assert fast.explain().replayed >= 4, str(fast.explain())


def test_a_thread_of_its_own_for_each_region() -> None:
    """Each with a generator of its own."""
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            own, other = (torch.Generator().manual_seed(number) for _ in range(2))

            def using(generator: torch.Generator) -> Fn:
                def fn(x: torch.Tensor) -> torch.Tensor:
                    state = generator.get_state()
                    y = torch.rand(3, generator=generator)
                    generator.set_state(state)
                    return x + y * torch.rand(3, generator=generator)

                return fn

            fast: Any = reprise.region(using(own))
            plain = using(other)
            for call in range(200):
                x = torch.full((3,), float(call))
                assert_same_bits([fast(x)], [plain(x)])
                assert_same_bits([own.get_state()], [other.get_state()])
            assert fast.explain().replayed > 100, str(fast.explain())
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed, failed
