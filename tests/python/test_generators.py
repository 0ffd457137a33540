"""Programs that draw random numbers: eager's bits, and eager's generator, when replayed."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable

import models
import pytest
import reprise
import skips
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from watching import (
    assert_same_bits,
    followed_share,
    randoms,
    replaying,
    rest,
    watched,
)

CALLS = 30

Step = Callable[[int], object]


def _state(device: str) -> torch.Tensor:
    """All of the default generator's, on the host."""
    return torch.get_rng_state() if device == "cpu" else torch.cuda.get_rng_state()


def _set_state(device: str, state: torch.Tensor) -> None:
    if device == "cpu":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state)


def _forked(device: str) -> contextlib.AbstractContextManager[None]:
    return torch.random.fork_rng(devices=[] if device == "cpu" else [0])


def _check(
    device: str, step: Step, *, calls: int = CALLS, least: float = 1.0
) -> reprise.Stats:
    """Results and the generator's state after each pass are eager's.

    Of the ops of some pass near the end at least that share must be followed.
    """
    shares: list[float] = []

    def run(session: reprise.Session | None) -> list[object]:
        torch.manual_seed(3)
        kept: list[object] = []
        for number in range(calls):
            before = session.stats() if session else None
            kept.append(step(number))
            kept.append(_state(device))
            if session and before:
                shares.append(followed_share(session, before))
                rest(session)
        return kept

    with watched(device) as session:
        found = run(session)
        stats = session.stats()
        told = str(session.explain())
    assert_same_bits(found, run(None))
    assert max(shares[-8:]) >= least, (shares, told)
    return stats


# --- What draws -------------------------------------------------------------------


@pytest.mark.parametrize("in_place", [False, True])
def test_dropout_is_part_of_its_trace(device: str, in_place: bool) -> None:
    dropout = nn.Dropout(0.3, inplace=in_place)
    model = nn.Sequential(models.mlp(), dropout, nn.Linear(8, 32), models.mlp())
    model.train().to(device)
    inputs = randoms(device, 4, 32, calls=CALLS)
    _check(device, lambda number: model(inputs[number]))


DRAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda x: torch.rand(4, 32, device=x.device) * x,
    "randn": lambda x: torch.randn(4, 32, device=x.device) + x,
    "randn, odd": lambda x: torch.randn(3, device=x.device) + x[0, :3],
    "randint": lambda x: torch.randint(9, (4, 32), device=x.device) * x,
    "randperm": lambda x: torch.randperm(32, device=x.device) * x,
    "rand_like": lambda x: torch.rand_like(x) * x,
    "randn_like": lambda x: torch.randn_like(x) * x,
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * x,
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.3) * x,
    "normal_": lambda x: torch.empty_like(x).normal_(1, 2) * x,
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1, 2) * x,
    "exponential_": lambda x: torch.empty_like(x).exponential_() * x,
    "random_": lambda x: torch.empty_like(x).random_(100) * x,
    "geometric_": lambda x: torch.empty_like(x).geometric_(0.4) * x,
    "poisson": lambda x: torch.poisson(x.abs()),
    "dropout of a part": lambda x: nn.functional.dropout(x[:, 8:24], 0.5) * 2,
    "alpha_dropout": lambda x: nn.functional.alpha_dropout(x, 0.2, training=True),
    "dropout1d": lambda x: nn.functional.dropout1d(x, 0.5),
    "rrelu": lambda x: nn.functional.rrelu(x, training=True),
    "gumbel_softmax": lambda x: nn.functional.gumbel_softmax(x),
    "twice": lambda x: torch.rand_like(x) + torch.rand_like(x),
}


@pytest.mark.parametrize("name", DRAWS)
def test_ops_that_draw_are_followed(device: str, name: str) -> None:
    draw = DRAWS[name]
    inputs = randoms(device, 4, 32, calls=CALLS)

    def step(number: int) -> torch.Tensor:
        h = inputs[number].tanh() * 1.5
        return draw(h + 0.25).double().sin() - 1

    _check(device, step)


@pytest.mark.parametrize("begins", [2, 3, 4, 5, 6, 12])
def test_an_op_that_draws_for_some_data_only(device: str, begins: int) -> None:
    """On a host, one number for each element below zero, of which there were none."""
    inputs = [x.abs() + 1 for x in randoms(device, 4, 32, calls=CALLS)]
    inputs[begins:] = [x - 2 for x in inputs[begins:]]

    def step(number: int) -> torch.Tensor:
        h = inputs[number] * 1.5
        torch.manual_seed(7)
        return nn.functional.rrelu(h, training=True) + 1

    _check(device, step)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_dropout_of_all_or_nothing(device: str, share: float) -> None:
    """Whether or not it draws then, what draws behind it does as eager does."""
    inputs = randoms(device, 4, 32, calls=CALLS)

    def step(number: int) -> list[torch.Tensor]:
        kept, mask = torch.native_dropout(inputs[number].tanh(), share, True)
        return [kept + 1, mask, torch.rand_like(kept)]

    _check(device, step)


def test_a_buffer_of_the_program_is_filled_with_noise(device: str) -> None:
    noise = torch.zeros(4, 32, device=device)
    inputs = randoms(device, 4, 32, calls=CALLS)

    def step(number: int) -> list[torch.Tensor]:
        noise.normal_()
        h = (inputs[number] + noise).relu()
        return [h * 2, noise.clone()]

    _check(device, step)


def test_training_with_dropout(device: str) -> None:
    start = nn.Sequential(
        nn.Linear(32, 48), nn.Dropout(0.4), nn.ReLU(), nn.Linear(48, 8), nn.Dropout(0.1)
    ).to(device)
    values = [p.detach().clone() for p in start.parameters()]
    inputs = randoms(device, 4, 32, calls=CALLS)
    made: list[torch.optim.Optimizer] = []

    def step(number: int) -> list[torch.Tensor]:
        if number == 0:
            with torch.no_grad():
                for p, value in zip(start.parameters(), values, strict=True):
                    p.copy_(value)
            made[:] = [torch.optim.SGD(start.parameters(), lr=0.05, momentum=0.9)]
        with torch.enable_grad():
            made[0].zero_grad()
            loss = start(inputs[number]).square().mean()
            loss.backward()
            made[0].step()
        return [loss.detach(), *(p.detach().clone() for p in start.parameters())]

    _check(device, step, least=0.9)


# --- Where the generator is -------------------------------------------------------


def _noisy(x: torch.Tensor) -> torch.Tensor:
    h = nn.functional.dropout(x.tanh() + 1, 0.5) * 2
    return nn.functional.dropout(h.relu() - 0.5, 0.25)


SEEDINGS: dict[str, Callable[[int], object]] = {
    "the same": lambda number: torch.manual_seed(11),
    "another": lambda number: torch.manual_seed(number),
    "zero": lambda number: torch.manual_seed(0),
    "the same, large": lambda number: torch.manual_seed(2**40 + 5),
    "now and then": lambda number: number % 11 == 10 and torch.manual_seed(number),
}


@pytest.mark.parametrize("when", ["before", "within"])
@pytest.mark.parametrize("name", SEEDINGS)
def test_a_program_that_seeds(device: str, name: str, when: str) -> None:
    """Each pass, where it begins or in its middle."""
    inputs = randoms(device, 4, 32, calls=60)

    def step(number: int) -> list[torch.Tensor]:
        if when == "before":
            SEEDINGS[name](number)
        first = _noisy(inputs[number])
        if when == "within":
            SEEDINGS[name](number)
        return [first, _noisy(first + 1)]

    _check(device, step, calls=60)


LIKE_OTHER_WORDS: dict[str, Callable[[torch.Tensor, torch.Tensor], int]] = {
    "a size": lambda x, weight: x.numel(),
    "an input's address": lambda x, weight: x.data_ptr(),
    "a weight's address": lambda x, weight: weight.data_ptr(),
    "all ones": lambda x, weight: -1,
    "one": lambda x, weight: 1,
}


@pytest.mark.parametrize("name", LIKE_OTHER_WORDS)
def test_a_seed_that_equals_other_words_of_the_pass(device: str, name: str) -> None:
    inputs = randoms(device, 4, 32, calls=60)
    weight = torch.randn(4, 32, device=device)

    def step(number: int) -> torch.Tensor:
        torch.manual_seed(LIKE_OTHER_WORDS[name](inputs[number], weight))
        return _noisy(inputs[number]) * weight + torch.rand_like(weight)

    _check(device, step, calls=60)


@pytest.mark.parametrize("seed", [5, None])
def test_a_forked_generator_in_mid_pass(device: str, seed: int | None) -> None:
    inputs = randoms(device, 4, 32, calls=CALLS)

    def step(number: int) -> list[torch.Tensor]:
        first = _noisy(inputs[number])
        with _forked(device):
            if seed is not None:
                torch.manual_seed(seed)
            second = _noisy(first + 1)
        return [second, _noisy(first - 1)]

    _check(device, step)


def test_numbers_that_are_drawn_again(device: str) -> None:
    """The generator is put back to where it was earlier in the pass."""
    inputs = randoms(device, 4, 32, calls=CALLS)

    def step(number: int) -> list[torch.Tensor]:
        x = inputs[number].relu() + 1
        state = _state(device)
        first = _noisy(x)
        after = _state(device)
        _set_state(device, state)
        again = _noisy(x)
        _set_state(device, after)
        return [first, again, _noisy(x)]

    _check(device, step)


def test_numbers_that_are_drawn_between_passes(device: str) -> None:
    """Another amount each time, and from another seed now and then."""
    inputs = randoms(device, 4, 32, calls=CALLS)

    def step(number: int) -> torch.Tensor:
        if number % 3 == 1:
            torch.rand(1 + 500 * number, device=device).sum().item()
        if number % 7 == 6:
            torch.manual_seed(number)
        return _noisy(inputs[number] + 1)

    _check(device, step)


def test_a_generator_of_the_programs_own(device: str) -> None:
    """Drawing from it cuts, and leaves the default one alone."""
    inputs = randoms(device, 4, 32, calls=CALLS)
    own = torch.Generator(device)

    def step(number: int) -> list[torch.Tensor]:
        if number == 0:
            own.manual_seed(5)
        first = _noisy(inputs[number])
        drawn = torch.rand(4, 32, device=device, generator=own)
        return [first, _noisy(first + drawn), own.get_state()]

    _check(device, step, least=0.8)


def test_another_thread_that_draws_in_mid_pass(device: str) -> None:
    inputs = randoms(device, 4, 32, calls=CALLS)

    def draw() -> torch.Tensor:
        return torch.rand(3, device=device)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:

        def step(number: int) -> list[torch.Tensor]:
            first = _noisy(inputs[number])
            other = pool.submit(draw).result() if number % 4 else draw()
            return [first, other, _noisy(first - 1)]

        _check(device, step, least=0.5)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activations_that_are_computed_again(device: str, reentrant: bool) -> None:
    """Checkpoints put the generator back for backward, and forth again."""
    block = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.ReLU()).to(device)
    inputs = randoms(device, 4, 32, calls=CALLS)

    def step(number: int) -> list[torch.Tensor]:
        with torch.enable_grad():
            x = inputs[number].clone().requires_grad_()
            h = x
            for _ in range(2):
                h = checkpoint(block, h, use_reentrant=reentrant)
            loss = nn.functional.dropout(h, 0.25).square().sum()
            (gradient,) = torch.autograd.grad(loss, [x]) if not reentrant else (None,)
            if reentrant:
                loss.backward()
                gradient = x.grad
                for p in block.parameters():
                    p.grad = None
        assert gradient is not None
        return [loss.detach(), gradient]

    _check(device, step, least=0.5)


# --- Replays that are left --------------------------------------------------------


def test_a_pass_that_is_left_has_drawn_no_more_than_eager(device: str) -> None:
    """Wherever it ends: what ran ahead has not moved the generator."""
    inputs = randoms(device, 4, 32, calls=80)

    def step(number: int) -> list[torch.Tensor]:
        ends = number % 8 if number % 9 == 8 else None
        h = inputs[number]
        kept = []
        for part in range(6):
            if part == ends:
                return [*kept, h.sin().cos()]
            h = nn.functional.dropout(h + part, 0.5) * 1.5
            kept.append(h)
        return kept

    _check(device, step, calls=80)


def test_a_generator_that_is_set_in_a_replay(device: str) -> None:
    """Where no recording saw it set: the pass goes on from there as eager's does."""
    inputs = randoms(device, 4, 32, calls=CALLS + 5)

    def step(number: int) -> list[torch.Tensor]:
        first = _noisy(inputs[number])
        if number >= CALLS:
            torch.manual_seed(number)
        return [first, _noisy(first + 1), torch.rand(3, device=device)]

    def run(session: reprise.Session | None) -> list[object]:
        torch.manual_seed(3)
        kept: list[object] = []
        for number in range(CALLS + 5):
            sets_it = session is not None and number == CALLS
            with replaying(session) if sets_it else contextlib.nullcontext():
                kept.append(step(number))
            kept.append(_state(device))
            if session:
                rest(session)
        return kept

    with watched(device) as session:
        found = run(session)
    assert_same_bits(found, run(None))


# --- What only a GPU shows --------------------------------------------------------

ON_A_GPU: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # More than a number for each thread.
    "large dropout": lambda x: nn.functional.dropout(x.repeat(1 << 13, 4), 0.5),
    "large rand": lambda x: torch.rand(1 << 22, device=x.device),
    "float64": lambda x: torch.randn(4, 32, device=x.device, dtype=torch.float64) + x,
    "float16": lambda x: torch.rand(4, 32, device=x.device, dtype=torch.float16) + x,
    "bfloat16 dropout": lambda x: nn.functional.dropout(x.bfloat16(), 0.5),
    "random_, all bits": lambda x: torch.empty_like(x, dtype=torch.int64).random_(),
    "random_, wide": lambda x: torch.empty_like(x, dtype=torch.int64).random_(1 << 40),
    "randperm, large": lambda x: torch.randperm(70000, device=x.device),
    "multinomial": lambda x: torch.multinomial(x.softmax(-1), 1),
    "multinomial, replaced": lambda x: torch.multinomial(x.softmax(-1), 8, True),
    "binomial": lambda x: torch.binomial(torch.full_like(x, 9), x.sigmoid()),
    "gamma": lambda x: torch._standard_gamma(x.abs() + 1),
    "dirichlet": lambda x: torch._sample_dirichlet(x.abs() + 1),
    "cauchy_": lambda x: torch.empty_like(x).cauchy_(),
    "log_normal_": lambda x: torch.empty_like(x).log_normal_(),
    "unaligned dropout": lambda x: nn.functional.dropout(x.flatten()[1:66], 0.5),
    "dropout of columns": lambda x: nn.functional.dropout(x.t(), 0.5),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_A_GPU)
def test_kernels_that_draw_are_followed(name: str) -> None:
    inputs = randoms("cuda", 4, 32, calls=CALLS)

    def step(number: int) -> list[torch.Tensor]:
        drawn = ON_A_GPU[name](inputs[number].tanh() * 1.5)
        return [drawn, nn.functional.dropout(drawn.double(), 0.5)]

    _check("cuda", step)


@pytest.mark.gpu
def test_an_op_that_draws_and_waits_for_the_device() -> None:
    inputs = randoms("cuda", 4, 32, calls=CALLS)

    def step(number: int) -> list[torch.Tensor]:
        h = _noisy(inputs[number])
        drawn = torch.normal(h, h.abs() + 1)  # asks whether a deviation is negative
        return [drawn, _noisy(drawn)]

    _check("cuda", step, least=0.5)


# Memory-efficient attention gives its seed and offset to the host, which backward
# reads.
ATTENTIONS = ["MATH", "FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_with_dropout(name: str) -> None:
    backend = getattr(torch.nn.attention.SDPBackend, name)
    inputs = randoms("cuda", 2, 4, 64, 32, calls=CALLS, dtype=torch.bfloat16)
    scale = torch.randn(32, device="cuda", dtype=torch.bfloat16)
    with (
        reprise.session("cuda", enabled=False),
        torch.nn.attention.sdpa_kernel(backend),
    ):
        try:
            nn.functional.scaled_dot_product_attention(
                *[inputs[0]] * 3, dropout_p=0.2, is_causal=True
            )
        except RuntimeError as error:
            if name != "CUDNN_ATTENTION" or "No available kernel" not in str(error):
                raise
            pytest.skip(skips.NO_ATTENTION.format(name))

    def step(number: int) -> list[torch.Tensor]:
        q, k, v = (inputs[number] * factor for factor in (0.5, scale, 2.0))
        with torch.nn.attention.sdpa_kernel(backend):
            kept = nn.functional.scaled_dot_product_attention(
                q, k, v, dropout_p=0.2, is_causal=True
            )
        return [kept, nn.functional.dropout(kept * 2, 0.1) + 1]

    _check("cuda", step)


class _Block(nn.Module):
    """Of a transformer, with dropout in its three places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(64), nn.LayerNorm(64)
        self.into, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.wide, self.narrow = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.into(self.first(x)).view(*x.shape[:2], 3, 4, 16)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(
            q, k, v, dropout_p=0.1, is_causal=True
        )
        seen = seen.transpose(1, 2).reshape(x.shape)
        x = x + nn.functional.dropout(self.out(seen), 0.1)
        h = nn.functional.gelu(self.wide(self.second(x)))
        return x + nn.functional.dropout(self.narrow(h), 0.2)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION"])
def test_training_of_a_transformer_with_dropout(name: str) -> None:
    """Parameters, momenta, losses and the generator after each of its steps."""
    backend = getattr(torch.nn.attention.SDPBackend, name)
    model = nn.Sequential(_Block(), _Block()).to("cuda", torch.bfloat16)
    values = [p.detach().clone() for p in model.parameters()]
    inputs = randoms("cuda", 2, 32, 64, calls=CALLS, dtype=torch.bfloat16)
    made: list[torch.optim.Optimizer] = []

    def step(number: int) -> list[torch.Tensor]:
        if number == 0:
            with torch.no_grad():
                for p, value in zip(model.parameters(), values, strict=True):
                    p.copy_(value)
            made[:] = [torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)]
        with torch.enable_grad(), torch.nn.attention.sdpa_kernel(backend):
            made[0].zero_grad()
            loss = model(inputs[number]).float().square().mean()
            loss.backward()
            made[0].step()
        momenta = [state["momentum_buffer"] for state in made[0].state.values()]
        return [t.detach().clone() for t in (loss, *model.parameters(), *momenta)]

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        _check("cuda", step, least=0.8)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
@pytest.mark.parametrize("offset", [0, 65504 - 40 * CALLS, 1 << 31, 1 << 40])
def test_attention_wherever_the_generator_is(offset: int) -> None:
    """Backward reads its offset as a number, of which no value is special."""
    block = _Block().cuda()
    weights = list(block.parameters())
    inputs = randoms("cuda", 2, 32, 64, calls=CALLS)
    default = torch.cuda.default_generators[0]

    def step(number: int) -> list[torch.Tensor]:
        if number == 0:
            torch.manual_seed((1 << 63) + 5)
            default.set_offset(offset)
        with torch.enable_grad():
            y = block(inputs[number])
            gradients = torch.autograd.grad(y.square().mean(), weights)
        return [y.detach(), *gradients]

    backend = torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.nn.attention.sdpa_kernel(backend):
            _check("cuda", step, least=0.95)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
def test_offsets_that_the_program_sets() -> None:
    """As a program does that keeps where it was: by the generator, or by its state."""
    inputs = randoms("cuda", 4, 32, calls=60)
    default = torch.cuda.default_generators[0]

    def step(number: int) -> list[torch.Tensor]:
        first = _noisy(inputs[number])
        offset = default.get_offset()
        default.set_offset(1 << 20 | 4 * number)
        second = _noisy(first + 1)
        default.set_offset(offset)
        return [second, _noisy(first - 1)]

    _check("cuda", step, calls=60)


@pytest.mark.gpu
def test_streams_that_share_a_generator() -> None:
    side = torch.cuda.Stream()
    inputs = randoms("cuda", 4, 32, calls=60)

    def step(number: int) -> list[torch.Tensor]:
        first = _noisy(inputs[number])
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            second = _noisy(first + 1)
        torch.cuda.current_stream().wait_stream(side)
        second.record_stream(torch.cuda.current_stream())
        return [first, second, _noisy(second - 1)]

    _check("cuda", step, calls=60, least=0.3)


@pytest.mark.gpu
@pytest.mark.parametrize("captured_at", [None, 15])
def test_a_graph_of_the_program_that_draws(captured_at: int | None) -> None:
    """The generator is registered with it, and each of its replays moves it."""
    inputs = randoms("cuda", 4, 32, calls=CALLS)
    static = torch.zeros(4, 32, device="cuda")

    def capture() -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = nn.functional.dropout(static * 2, 0.5)
        return graph, made

    captured = [capture()]

    def step(number: int) -> list[torch.Tensor]:
        if number == captured_at:
            captured.append(capture())
        first = _noisy(inputs[number])
        static.copy_(first)
        graph, made = captured[-1]
        graph.replay()
        return [first, _noisy(made + 1)]

    _check("cuda", step, least=0.5)


@pytest.mark.gpu
def test_dropout_between_layers_of_a_recurrent_network() -> None:
    """cuDNN keeps a state of its own, drawn anew where the program has seeded."""
    model = nn.LSTM(32, 32, num_layers=2, dropout=0.4).to("cuda").train()
    inputs = randoms("cuda", 6, 4, 32, calls=CALLS)

    def step(number: int) -> list[torch.Tensor]:
        if number % 13 == 12:
            torch.manual_seed(number)
        h = _noisy(_noisy(inputs[number]))
        out, (hidden, cell) = model(h)
        return [out, hidden, cell, _noisy(_noisy(out))]

    _check("cuda", step, least=0.5)
