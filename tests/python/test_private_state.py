"""Running statistics and counters: ahead of the program in a plan's copies, and never
seen by anybody before the program has asked for them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import models
import pytest
import reprise
import torch
from torch import nn
from watching import (
    assert_same_bits,
    followed_share,
    randoms,
    replaying,
    rest,
    settle,
    until_replayed,
    watched,
)

CALLS = 24


def _cnn(device: str) -> nn.Module:
    """Three batch norms in a row of convolutions, in training."""
    torch.manual_seed(5)
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 4, 3, padding=1),
            nn.BatchNorm2d(4, momentum=0.3),
        )
        .to(device)
        .train()
    )


def _state(model: nn.Module) -> list[torch.Tensor]:
    return [value.clone() for value in model.state_dict().values()]


def _compare(
    device: str, use: Callable[[nn.Module, torch.Tensor, int], Any], share: float = 0.0
) -> None:
    """`use(model, x, i)` gives eager's values, and leaves eager's state behind."""
    inputs = randoms(device, 2, 3, 6, 6, calls=CALLS)
    model = _cnn(device)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        expected = [use(twin, x, i) for i, x in enumerate(inputs)]
        with watched(device) as session:
            found = []
            for i, x in enumerate(inputs):
                if i == CALLS // 2:
                    before = session.stats()
                found.append(use(model, x, i))
                rest(session)
            assert followed_share(session, before) >= share, str(session.explain())
            assert session.stats().effects > 0, str(session.explain())
    for i, (left, right) in enumerate(zip(found, expected, strict=True)):
        assert_same_bits(left, right, f"call {i},")
    assert_same_bits(_state(model), _state(twin))


# First: with a second stream, plans have no copies.
@pytest.mark.gpu
@pytest.mark.parametrize("calls", [1, 3])
def test_forward_passes_with_batch_norm_are_a_few_launches(calls: int) -> None:
    """One, or several of one trace, as of a model that sees two views of a batch."""
    x = randoms("cuda", 2, 3, 6, 6)[0]
    model = _cnn("cuda")

    def use() -> None:
        y = [model(x * i) for i in range(calls)]
        del y

    with torch.no_grad(), watched("cuda") as session:
        settle(session, use)
        until_replayed(session, use)
        plans = [p for p in session.explain().to_dict()["plans"] if p["replays"] > 0]
        most = max(plans, key=lambda plan: plan["ops"])
        assert most["ops"] >= 8 * calls, str(session.explain())
        assert most["segments"] <= 2 * calls, str(session.explain())


def test_statistics_are_eagers_behind_each_pass(device: str) -> None:
    _compare(device, lambda model, x, _: [model(x), *_state(model)])


def test_passes_that_nobody_looks_behind(device: str) -> None:
    _compare(device, lambda model, x, _: model(x), share=0.5)


def test_reading_them_between_two_layers(device: str) -> None:
    """The first one's statistics are new then, and the others' are still old."""

    def use(model: nn.Module, x: torch.Tensor, i: int) -> list[torch.Tensor]:
        h = model[:3](x)
        seen = _state(model) if i % 5 == 3 else []
        return [model[3:](h), *seen]

    _compare(device, use)


def test_leaving_a_pass_in_its_middle(device: str) -> None:
    def use(model: nn.Module, x: torch.Tensor, i: int) -> list[torch.Tensor]:
        h = model[:4](x)
        return [h if i % 6 == 5 else model[4:](h)]

    _compare(device, use)


def test_an_exception_in_the_middle(device: str) -> None:
    def use(model: nn.Module, x: torch.Tensor, i: int) -> list[torch.Tensor]:
        h = model[:3](x)
        if i % 7 == 6:
            with pytest.raises(RuntimeError):
                model[3:](h[:, :1])
            return [h]
        return [model[3:](h)]

    _compare(device, use)


def test_a_number_read_in_each_pass(device: str) -> None:
    def use(model: nn.Module, x: torch.Tensor, _: int) -> list[torch.Tensor]:
        y = model(x)
        return [y * int(model[1].num_batches_tracked.item())]

    _compare(device, use)


def test_statistics_that_the_program_sets(device: str) -> None:
    def use(model: nn.Module, x: torch.Tensor, i: int) -> list[torch.Tensor]:
        if i % 4 == 3:
            model[4].running_mean.zero_()
        return [model(x)]

    _compare(device, use)


def test_statistics_that_are_replaced_in_the_middle(device: str) -> None:
    """The one that was written is nobody's then; the new one is untouched."""

    def use(model: nn.Module, x: torch.Tensor, i: int) -> list[torch.Tensor]:
        h = model[:2](x)
        if i % 5 == 4:
            model[1].running_mean = torch.full((8,), float(i), device=x.device)
        return [model[2:](h), model[1].running_mean.clone()]

    _compare(device, use)


def test_a_model_that_is_dropped_behind_its_pass(device: str) -> None:
    x = randoms(device, 2, 3, 6, 6)[0]
    with torch.no_grad(), watched(device) as session:
        kept = [_cnn(device)]
        settle(session, lambda: kept[0](x))
        with replaying(session):
            y = kept[0](x)
        expected = y.clone()
        kept.clear()
        other = _cnn(device)
        before = _state(other)
        assert_same_bits(y, expected)
        assert_same_bits(_state(other), before)


def test_small_optimizer_steps_are_private_too(device: str) -> None:
    """SGD on a network so small that each operator's state is."""
    inputs = randoms(device, 4, 16, calls=CALLS)

    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(9)
        model = models.mlp(width=16, layers=2).to(device).train()
        return model, torch.optim.SGD(model.parameters(), lr=0.05, foreach=True)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach().clone()

    twin, its = make()
    expected = [step(twin, its, x) for x in inputs]
    model, ours = make()
    found = []
    with watched(device) as session:
        for x in inputs:
            found.append(step(model, ours, x))
            rest(session)
    assert_same_bits(found, expected)
    assert_same_bits(_state(model), _state(twin))


def _twice(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = model[:3](x)
    return h, model[4](model[1](h))


def test_a_layer_that_is_called_twice(device: str) -> None:
    """Its statistics have two writers."""
    _compare(device, lambda model, x, _: [*_twice(model, x), *_state(model)])


def test_leaving_between_two_calls_of_a_layer(device: str) -> None:
    """What is seen then, and goes on from there, is what the first one left."""

    def use(model: nn.Module, x: torch.Tensor, i: int) -> list[torch.Tensor]:
        if i % 5 != 4:
            return [*_twice(model, x)]
        h = model[:3](x)
        return [h, *_state(model), model[1](h * 2), *_state(model)]

    _compare(device, use)


@pytest.mark.gpu
def test_another_stream_reads_them_behind_the_pass() -> None:
    """Ordered by an event; from then on plans are built without copies."""
    inputs = randoms("cuda", 2, 3, 6, 6, calls=3 * CALLS)
    model = _cnn("cuda")
    twin = copy.deepcopy(model)
    with torch.no_grad():
        expected = []
        for x in inputs:
            twin(x)
            expected.append(twin[4].running_var.clone())
        side = torch.cuda.Stream()
        found = []
        with watched("cuda") as session:
            for i, x in enumerate(inputs):
                model(x)
                if i < CALLS:
                    found.append(model[4].running_var.clone())
                else:
                    side.wait_stream(torch.cuda.current_stream())
                    with torch.cuda.stream(side):
                        found.append(model[4].running_var.clone())
                    torch.cuda.current_stream().wait_stream(side)
                rest(session)
            until_replayed(session, lambda: model(inputs[0]))
    assert_same_bits(found, expected)


def test_reset_and_disable_in_the_middle(device: str) -> None:
    inputs = randoms(device, 2, 3, 6, 6, calls=CALLS)
    model = _cnn(device)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        expected = [twin(x) for x in inputs]
        found = []
        with watched(device) as session:
            for i, x in enumerate(inputs):
                h = model[:3](x)
                if i == 14:
                    session.reset()
                if i == 10:
                    reprise.disable()
                    reprise.enable(device, policy="always")
                found.append(model[3:](h))
                rest(session)
    assert_same_bits(found, expected)
    assert_same_bits(_state(model), _state(twin))
