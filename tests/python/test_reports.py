"""What a newcomer reads: how much was replayed, which line is in the way, what helps."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import models
import pytest
import reprise
import torch
from reprise._advice import advice
from torch import nn
from watching import rest, watched

PASSES = 30


def here(function: Callable[..., Any], mark: str) -> str:
    """The place of the function's line that has the mark, as a report writes it."""
    lines, first = inspect.getsourcelines(function)
    (number,) = (first + i for i, line in enumerate(lines) if f"# {mark}" in line)
    return f"{__file__}:{number}"


def reported(
    device: str, step: Callable[[], object], *, replays: bool = True
) -> reprise.Report:
    """The report of a program's passes."""
    with watched(device, replays=replays) as session:
        for _ in range(PASSES):
            step()
            rest(session)
        return session.explain()


def places(report: reprise.Report, what: str) -> set[str]:
    """Of all plans, or all cuts."""
    return {place for row in report.to_dict()[what] for place in row["places"]}


def summary(report: reprise.Report) -> str:
    """What it begins with, in one line."""
    return " ".join(str(report).partition("\nreprise on ")[0].split())


def test_inference_says_what_was_replayed(device: str) -> None:
    model = models.mlp().to(device)

    @torch.no_grad()
    def step() -> None:
        x = torch.randn(4, 32, device=device)  # head
        model(x).sum().item()

    report = reported(device, step)
    stats = report.to_dict()["stats"]
    share = f"{stats['followed'] / stats['ops']:.0%}"
    assert summary(report).startswith(f"{share} of {stats['ops']} ops were replayed")
    assert here(step, "head") in places(report, "plans")


def test_a_number_in_mid_pass_names_its_line_and_the_remedy(device: str) -> None:
    first, second = models.mlp().to(device), models.mlp().to(device)

    @torch.no_grad()
    def step() -> None:
        h = first(torch.randn(4, 32, device=device))
        if h.abs().sum().item() > 0:  # looks
            second(h.repeat(1, 4))

    report = reported(device, step)
    (cut,) = [
        row
        for row in report.to_dict()["cuts"]
        if row["reason"] == "hands data to the host"
    ]
    assert here(step, "looks") in cut["places"]
    assert here(step, "looks") in summary(report)
    assert advice(cut["reason"]) in summary(report)
    assert "keep the number on the device" in summary(report)


def test_shapes_that_never_come_again_are_reported_as_such(device: str) -> None:
    model = models.mlp().to(device)
    rows = iter(range(1, 100))

    @torch.no_grad()
    def step() -> None:
        x = torch.randn(next(rows), 32, device=device)  # grows
        model(x).sum().item()

    report = reported(device, step, replays=False)
    assert here(step, "grows") in summary(report), report
    assert "pad to a few sizes" in summary(report)


def test_training_names_the_lines_of_its_steps(device: str) -> None:
    model = models.mlp().to(device)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        x = torch.randn(4, 32, device=device)  # batch
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # update
        loss.item()  # looks

    report = reported(device, step)
    assert places(report, "plans") & {here(step, "batch"), here(step, "update")}
    assert here(step, "looks") in places(report, "cuts")


def test_dropout_is_replayed_and_an_own_generator_is_named(device: str) -> None:
    model = nn.Sequential(models.mlp(), nn.Dropout(0.5)).to(device).train()
    generator = torch.Generator(device).manual_seed(1)

    @torch.no_grad()
    def step() -> None:
        h = model(torch.randn(4, 32, device=device))
        noise = torch.randn(4, 8, device=device, generator=generator)  # own
        (h + noise).sigmoid().mul(2).sum().item()

    report = reported(device, step)
    assert here(step, "own") in places(report, "cuts")
    assert "draw from the default generator" in str(report)
    operators = {
        name
        for plan in report.to_dict()["plans"]
        if plan["replays"] > 0
        for name in plan["operators"]
    }
    assert any("dropout" in name or "bernoulli" in name for name in operators)


def test_a_squash_names_the_line_that_was_another_one(device: str) -> None:
    model = models.mlp().to(device)
    count = iter(range(1000))

    @torch.no_grad()
    def step() -> None:
        h = model(torch.randn(4, 32, device=device))
        if next(count) == PASSES - 2:
            h = torch.tanh(h)  # once
        (h + 1).sum().item()

    report = reported(device, step)
    squashes = report.to_dict()["squashes"]
    assert [row["places"] for row in squashes] == [[here(step, "once")]], report
    assert "found aten::tanh" in str(report)


def test_an_op_of_a_backward_pass_has_the_line_of_backward(device: str) -> None:
    """Its ops come from a thread that runs no Python."""

    weight = torch.randn(8, 8, device=device, requires_grad=True)

    def step() -> None:
        x = torch.randn(4, 8, device=device)
        h = x @ weight
        for _ in range(4):
            h = torch.relu(h) * 1.5
        loss = h.sum()
        loss.item()
        loss.backward()  # backward
        weight.grad = None

    assert here(step, "backward") in places(reported(device, step), "plans")


def test_places_are_found_while_another_thread_has_pythons_lock(device: str) -> None:
    """Who asks for the place waits for that lock, and for nothing of Reprise's."""
    model = models.mlp().to(device)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=busy)
    thread.start()
    try:

        @torch.no_grad()
        def step() -> None:
            model(torch.randn(4, 32, device=device)).sum().item()  # looks

        report = reported(device, step)
    finally:
        stop.set()
        thread.join()
    assert here(step, "looks") in places(report, "cuts")


def test_of_a_package_the_line_that_led_there_is_told(device: str) -> None:
    """Torch's own lines tell nobody what a program does."""
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True).to(device).eval()

    @torch.no_grad()
    def step() -> None:
        h = layer(torch.randn(2, 4, 32, device=device))
        torch.testing.assert_close(h, h)  # compares
        h.sum().item()

    found = places(reported(device, step, replays=False), "cuts")
    assert here(step, "compares") in found
    assert not any("/torch/" in place for place in found)


@pytest.mark.parametrize(
    "reason", ["hands data to the host", "a new op each time, as before", "no such"]
)
def test_advice_is_for_what_a_program_can_change(reason: str) -> None:
    assert bool(advice(reason)) == (reason != "no such")


# --- Stretches ---------------------------------------------------------------------


def test_a_session_round_each_call_is_replayed(device: str) -> None:
    model = models.mlp().to(device)
    inputs = [torch.randn(4, 32, device=device) for _ in range(4)]
    with torch.no_grad():
        expected = [model(x) for x in inputs]
        with watched(device, replays=False) as outer:
            pass
        for i in range(PASSES):
            with reprise.session(device, policy="always") as session:
                found = model(inputs[i % 4])
            assert torch.equal(found, expected[i % 4])
            rest(outer)
        before = session.stats()
        assert before.followed == before.ops > 0, session.explain()
    assert "were replayed" in str(session.explain())


def test_a_decorated_function_is_replayed(device: str) -> None:
    model = models.mlp().to(device)

    @reprise.session(device, policy="always")
    @torch.no_grad()
    def call(x: torch.Tensor) -> torch.Tensor:
        return model(x)

    with watched(device, replays=False) as session:
        pass
    begun = session.stats()
    for _ in range(PASSES):
        x = torch.randn(4, 32, device=device)
        y = call(x)
        with torch.no_grad():
            assert torch.equal(y, model(x))
        rest(session)
    done = session.stats().since(begun)
    assert done.followed > done.ops / 2, session.explain()


def test_data_loading_that_is_left_out_keeps_nothing_from_being_replayed(
    device: str,
) -> None:
    model = models.mlp().to(device)
    sizes = iter(range(1, 1000))
    with torch.no_grad(), watched(device) as session:
        for _ in range(PASSES):
            with reprise.session(enabled=False):
                x = torch.randn(next(sizes), 32, device=device).mean(0, keepdim=True)
            model(x)
            rest(session)
        before = session.stats()
        for _ in range(10):
            with reprise.session(enabled=False):
                x = torch.randn(next(sizes), 32, device=device).mean(0, keepdim=True)
            model(x)
            rest(session)
        done = session.stats().since(before)
        assert done.followed == done.ops > 0, session.explain()
