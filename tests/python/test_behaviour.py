"""What a program may do to results, inputs, weights and modes between calls."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import models
import pytest
import torch
from torch import nn
from watching import (
    assert_same_bits,
    check,
    cycle,
    randoms,
    replaying,
    rest,
    settle,
    until_replayed,
    watched,
)


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def test_outputs_written_in_place(device: str) -> None:
    model = models.mlp().to(device)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        y.mul_(3).add_(1)
        return y

    check(device, step, randoms(device, 4, 32))


def test_an_old_output_written_while_new_ones_come(device: str) -> None:
    """What is written is a tensor that an earlier replay made."""
    model = models.mlp().to(device)
    inputs = randoms(device, 4, 32)

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        kept: list[torch.Tensor] = []
        for x in inputs:
            kept.append(model(x))
            kept[len(kept) // 2].sub_(0.5)
            wait()
        return kept

    with watched(device) as session:
        found = run(lambda: rest(session))
    assert_same_bits(found, run(lambda: None))


def test_outputs_viewed_and_written_through_views(device: str) -> None:
    model = models.mlp().to(device)

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        y = model(x)
        row, column = y[1], y.t()[2]
        row.fill_(7)
        column.neg_()
        return [y, row, column, y.reshape(-1)[3:9]]

    check(device, step, randoms(device, 4, 32))


def test_outputs_resized_and_set(device: str) -> None:
    model = models.mlp().to(device)

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        grown = model(x).resize_(16, 16)
        moved = torch.empty(0, device=device).set_(model(x))
        return [grown[:2].clone(), moved]

    check(device, step, randoms(device, 4, 32))


def test_inputs_overwritten_after_the_call(device: str) -> None:
    model = models.mlp().to(device)
    inputs = randoms(device, 4, 32)

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        buffer = torch.empty(4, 32, device=device)
        kept = []
        for x in inputs:
            buffer.copy_(x)
            kept.append(model(buffer))
            buffer.zero_()
            wait()
        return kept

    with watched(device) as session:
        found = run(lambda: rest(session))
    assert_same_bits(found, run(lambda: None))


def test_an_input_dropped_as_soon_as_it_was_used(device: str) -> None:
    model = models.mlp().to(device)
    check(device, lambda x: model(x.clone()), randoms(device, 4, 32))


def test_shapes_change_between_calls(device: str) -> None:
    model = models.mlp().to(device)
    rows = cycle([2, 2, 2, 5, 5, 1], 60)
    check(device, model, [torch.randn(n, 32, device=device) for n in rows])


def test_dtypes_change_between_calls(device: str) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return ((x * 2 + 1).sin() @ x.t()).relu()

    kinds = cycle([torch.float32, torch.float64, torch.bfloat16], 72)
    inputs = [torch.randn(4, 4, device=device).to(kind) for kind in kinds]
    check(device, step, inputs)


def _with_modes(
    device: str, modes: list[Callable[[], AbstractContextManager[object]]]
) -> None:
    """The same model on fresh inputs, three calls under each mode in turn."""
    model = models.mlp().to(device)

    def step(pick: tuple[int, torch.Tensor]) -> torch.Tensor:
        with contextlib.ExitStack() as stack:
            stack.enter_context(modes[pick[0]]())
            return model(pick[1])

    turns = cycle([n for n in range(len(modes)) for _ in range(3)], 60)
    inputs = list(zip(turns, randoms(device, 4, 32, calls=60), strict=True))
    check(device, step, inputs)


def test_grad_mode_changes_between_calls(device: str) -> None:
    _with_modes(device, [torch.no_grad, torch.enable_grad])


def test_inference_mode_changes_between_calls(device: str) -> None:
    _with_modes(device, [torch.no_grad, torch.inference_mode])


def test_autocast_changes_between_calls(device: str) -> None:
    def half() -> torch.autocast:
        return torch.autocast(device, torch.bfloat16)

    _with_modes(device, [contextlib.nullcontext, half])


def test_inference_mode_throughout(device: str) -> None:
    model = models.SmallCnn().eval().to(device)
    with torch.inference_mode():
        check(device, model, randoms(device, 2, 3, 12, 12))


def _edit_in_place(model: nn.Sequential) -> None:
    for weight in model.parameters():
        weight.mul_(1.25)


def _replace(model: nn.Sequential) -> None:
    model[0].weight = nn.Parameter(model[0].weight * -1)


def _load(model: nn.Sequential) -> None:
    model.load_state_dict({k: v + 0.125 for k, v in model.state_dict().items()})


def _reassign_data(model: nn.Sequential) -> None:
    model[0].weight.data = model[0].weight.data.clone() * 0.5


def _swap_layers(model: nn.Sequential) -> None:
    model[0], model[2] = model[2], model[0]


@pytest.mark.parametrize(
    "edit", [_edit_in_place, _replace, _load, _reassign_data, _swap_layers]
)
def test_weights_change_between_calls(
    device: str, edit: Callable[[nn.Sequential], None]
) -> None:
    """Ten calls, an edit, ten calls, an edit, ten calls: all outputs kept."""
    start = models.mlp().to(device)
    inputs = randoms(device, 4, 32, calls=30)

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        model = models.mlp().to(device)
        model.load_state_dict(start.state_dict())
        kept = []
        for number, x in enumerate(inputs):
            if number in (10, 20):
                edit(model)
            kept.append(model(x))
            wait()
        return kept

    with watched(device) as session:
        found = run(lambda: rest(session))
    assert_same_bits(found, run(lambda: None))


@pytest.mark.parametrize("first", [False, True])
def test_a_scalar_that_changes_at_every_call(device: str, first: bool) -> None:
    """In the midst of a trace, and in the op that begins the pass."""
    model = models.mlp().to(device)

    def step(pick: tuple[float, torch.Tensor]) -> list[torch.Tensor]:
        scale, x = pick
        h = x * scale if first else x.tanh() * scale
        h = h.relu() + scale
        return [h, torch.tensor(h.sum().item()), model(h)]

    scales = [1 + number / 7 for number in range(24)]
    check(device, step, list(zip(scales, randoms(device, 4, 32), strict=True)))


def test_randomness_is_eagers(device: str) -> None:
    """Dropout moves the generator as eager does, whatever is replayed around it."""
    model = nn.Sequential(models.mlp(), nn.Dropout(0.5), nn.Linear(8, 32), models.mlp())
    model.train().to(device)
    inputs = randoms(device, 4, 32)

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        kept = []
        for x in inputs:
            kept.append(model(x))
            wait()
        return [*kept, torch.rand(3, device=device)]

    with watched(device) as session:
        found = run(lambda: rest(session))
        assert "dropout: " not in str(session.explain())  # is no cut
    assert_same_bits(found, run(lambda: None))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_training_steps_are_eagers(
    device: str, optimizer: type[torch.optim.Optimizer]
) -> None:
    start = models.SmallCnn().to(device).train()
    images = randoms(device, 4, 3, 12, 12)
    labels = [torch.randint(5, (4,), device=device) for _ in images]

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        model = models.SmallCnn().to(device).train()
        model.load_state_dict(start.state_dict())
        steps = optimizer(model.parameters(), lr=0.01)
        losses = []
        with torch.enable_grad():
            for x, label in zip(images, labels, strict=True):
                steps.zero_grad()
                loss = nn.functional.cross_entropy(model(x), label)
                loss.backward()
                steps.step()
                losses.append(loss.detach())
                wait()
        return [*losses, *(v.clone() for v in model.state_dict().values())]

    with watched(device) as session:
        found = run(lambda: rest(session))
    assert_same_bits(found, run(lambda: None))


def test_a_step_that_raises_now_and_then(device: str) -> None:
    model = models.mlp().to(device)
    wrong = torch.randn(4, 5, device=device)

    def step(pick: tuple[int, torch.Tensor]) -> torch.Tensor:
        number, x = pick
        h = x.relu() + 1
        if number % 5 == 4:
            with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
                h @ wrong
        return model(h)

    inputs = list(enumerate(randoms(device, 4, 32, calls=30)))
    check(device, step, inputs)


def test_host_reads_between_ops(device: str) -> None:
    def step(x: torch.Tensor) -> list[torch.Tensor]:
        h = (x * 2).relu()
        if h.sum().item() > 1e9:
            h = h + 1
        count = int((h > 1).sum())
        return [h * 3, h.new_full((2,), float(count)), (h - 1).abs()]

    check(device, step, randoms(device, 4, 32))


def test_threads_that_run_at_once(device: str) -> None:
    """Two threads on one stream, in the middle of a replay of a third one's."""
    pair = [models.mlp().to(device), models.mlp(layers=3).to(device)]
    inputs = [randoms(device, 4, 32, calls=60) for _ in pair]
    found: list[list[torch.Tensor]] = [[], []]

    def work(which: int) -> None:
        with torch.no_grad():
            for x in inputs[which]:
                found[which].append(pair[which](x))

    with watched(device) as session:
        settle(session, lambda x: [model(x).sum().item() for model in pair], inputs[0])
        with replaying(session):
            half = pair[0][:5](inputs[1][0])
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole = pair[0][5:](half)
        until_replayed(session, lambda: [model(inputs[0][0]) for model in pair])
    expected = [[pair[n](x) for x in inputs[n]] for n in range(2)]
    assert_same_bits(found, expected)
    assert_same_bits(whole, pair[0](inputs[1][0]))


def test_a_model_that_moves_to_another_thread(device: str) -> None:
    model = models.mlp().to(device)
    inputs = randoms(device, 4, 32)
    found: list[torch.Tensor] = []

    def one(x: torch.Tensor) -> None:
        with torch.no_grad():
            found.append(model(x))

    with watched(device) as session:
        settle(session, lambda: model(inputs[0]))
        with replaying(session):
            for number, x in enumerate(inputs):
                if number % 2:
                    thread = threading.Thread(target=one, args=(x,))
                    thread.start()
                    thread.join()
                else:
                    one(x)
    assert_same_bits(found, [model(x) for x in inputs])


def test_results_outlive_plans_and_the_session(device: str) -> None:
    model = models.mlp().to(device)
    inputs = randoms(device, 4, 32)
    kept = []
    with watched(device, replays=False) as session:
        settle(session, lambda: model(inputs[0]))
        with replaying(session):
            kept += [model(x) for x in inputs[:8]]
        session.reset()
        kept += [model(x) for x in inputs[8:]]
    kept.append(model(inputs[0]))
    assert_same_bits(kept, [model(x) for x in [*inputs, inputs[0]]])


def test_switching_off_in_the_middle_of_a_pass(device: str) -> None:
    """What was launched ahead is given up; what was handed out stays right."""
    left, right = models.mlp(layers=2).to(device), models.mlp(layers=2).to(device)
    inputs = randoms(device, 4, 32)
    with watched(device) as session:
        settle(session, lambda x: [m(x).sum().item() for m in (left, right)], inputs)
        with replaying(session):
            found = [left(inputs[1])]
    found += [right(inputs[1]), left(inputs[2])]
    with watched(device, replays=False):  # one pass of a session that knows nothing
        found.append(left(inputs[3]))
    expected = [left(inputs[1]), right(inputs[1]), left(inputs[2]), left(inputs[3])]
    assert_same_bits(found, expected)
