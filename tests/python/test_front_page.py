"""What README's first table says of a row, and that the figure is the record's.

A row is measured here on the host executor, with small modules; that replays are fast
is not asked. What drives rows is tested in tests/architecture/front_page_test.py.
"""

from __future__ import annotations

import importlib
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import reprise
import skips
import torch
from torch import nn

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
NAMES = [path.stem for path in PERF.glob("*.py")]
MODES = ("eager", "control", "enable", "region", "graph", "compile", "reduce_overhead")


@pytest.fixture
def perf(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Modules of perf/, where a GPU's functions are the host's.

    Some have names that modules of the tests have, too.
    """
    others = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    sys.path.insert(0, str(PERF))
    try:
        wanted = ("front_rows", "front_figure", "tables", "models", "regions")
        found = {name: importlib.import_module(name) for name in wanted}
        found["training"] = importlib.import_module("training")
    finally:
        sys.path.remove(str(PERF))
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(others)
    modules = SimpleNamespace(**found)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_rng_state", torch.get_rng_state)
    monkeypatch.setattr(modules.front_rows, "DEVICE", "cpu")
    monkeypatch.setattr(modules.models, "prepare", lambda: 250.0)
    monkeypatch.setattr(modules.front_rows, "prepare_compile", lambda _: 2.0)

    def hand_written(module: nn.Module, _: object) -> Callable[..., torch.Tensor]:
        static: list[torch.Tensor] = []

        def run(new: tuple[torch.Tensor, ...]) -> torch.Tensor:
            found = module(*new)
            static[:] = [static[0].copy_(found) if static else found.clone()]
            return static[0]

        return run

    monkeypatch.setattr(modules.models, "hand_written", hand_written)
    monkeypatch.setattr(
        modules.regions, "whole_step", lambda made: lambda new: made.on_batch(*new)
    )
    yield modules
    with reprise.session("cpu") as session:
        session.reset()


class Net(nn.Module):
    """Residual layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = nn.functional.gelu(layer(x)) + x
        return self.norm(x)


def effort(perf: SimpleNamespace) -> Any:
    return perf.front_rows.Effort(
        first_seconds=0.2,
        compiled_seconds=0.0,
        settle_seconds=0.1,
        rounds=3,
        passes=2,
        reserve_seconds=1.0,
    )


def measured(
    perf: SimpleNamespace, program: Any, seconds: float = 60.0
) -> dict[str, dict[str, Any]]:
    """The records of a row, by mode."""
    stages: list[str] = []
    ends = time.monotonic() + seconds
    row = perf.front_rows.Measurement(program, effort(perf), ends, stages.append)
    records = row.run()
    assert [record["mode"] for record in records] == list(MODES)
    assert stages[:7] == list(MODES)
    return {record["mode"]: record for record in records}


def model(perf: SimpleNamespace) -> Any:
    torch.manual_seed(0)
    return perf.front_rows.of_model(Net().eval(), lambda: (torch.randn(4, 16),))


def create(perf: SimpleNamespace) -> Callable[[bool], Any]:
    def make(_: bool) -> Any:
        torch.manual_seed(0)
        net = Net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, fused=True)
        batches = [(torch.randn(4, 16),) for _ in range(perf.training.BATCHES)]

        def on_batch(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            dropped = nn.functional.dropout(net(x), 0.1)
            loss = nn.functional.mse_loss(dropped, x)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def step(i: int) -> torch.Tensor:
            return on_batch(*batches[i % len(batches)])

        return perf.training.Program([net], [optimizer], step, on_batch, batches)

    return make


def other_bits(function: Callable[..., torch.Tensor], mode: str) -> Any:
    """Stands for a compiler: results that are nearly eager's."""
    assert mode in ("default", "reduce-overhead")
    return lambda new: function(*new) * (1 + 2**-20)


@torch.no_grad()
def test_outputs_of_every_way_are_compared(
    perf: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf.models, "compiled_at_first_call", other_bits)
    found = measured(perf, model(perf))
    assert not any("error" in record for record in found.values())
    assert {mode: record["bits"] for mode, record in found.items()} == {
        **dict.fromkeys(MODES, True),
        **dict.fromkeys(("compile", "reduce_overhead"), False),
    }
    for mode in ("enable", "region"):
        assert found[mode]["replays"] > 0
        assert found[mode]["policy"] == "auto"
        assert found[mode]["prepare_s"] == 0.25
    assert found["compile"]["prepare_s"] == 2.0
    assert found["eager"]["policy"] is None
    assert all(record["compared"] == perf.models.KEPT for record in found.values())


def test_all_that_training_steps_leave_is_compared(
    perf: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a compiler whose loss alone has other bits, and of one whose step is eager's."""

    def compiled(function: Callable[..., torch.Tensor], mode: str) -> Any:
        if mode == "default":
            return other_bits(function, mode)
        return lambda new: function(*new)

    monkeypatch.setattr(perf.models, "compiled_at_first_call", compiled)
    found = measured(perf, perf.front_rows.of_step(create(perf)))
    bits = {mode: record["bits"] for mode, record in found.items()}
    assert bits == {**dict.fromkeys(MODES, True), "compile": False}
    assert found["enable"]["replays"] > 0
    assert found["region"]["replays"] > 0
    # Losses, weights, gradients, Adam's state, the generator's.
    weights = len(list(Net().parameters()))
    state = len(Net().state_dict()) + weights + 3 * weights
    assert found["region"]["compared"] == perf.training.STEPS + state + 1


def test_a_step_that_leaves_other_state_is_found(
    perf: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(function: Callable[..., torch.Tensor], _: str) -> Any:
        net = function.__closure__  # type: ignore[attr-defined]
        (module,) = (c.cell_contents for c in net if isinstance(c.cell_contents, Net))

        def run(new: tuple[torch.Tensor, ...]) -> torch.Tensor:
            loss = function(*new)
            module.norm.running_mean.mul_(1 + 2**-20)
            return loss

        return run

    monkeypatch.setattr(perf.models, "compiled_at_first_call", compiled)
    found = measured(perf, perf.front_rows.of_step(create(perf)))
    assert found["region"]["bits"]
    assert not found["compile"]["bits"]


def test_a_training_program_begins_again_where_it_began(perf: SimpleNamespace) -> None:
    make = create(perf)
    program, fresh = make(False), make(False)
    start = perf.front_rows.Start(program)
    left = []
    for each in (program, program, fresh):
        start.restore()
        torch.manual_seed(1)
        losses = [each.step(i).clone() for i in range(5)]
        left.append([*losses, *(value.clone() for value in each.state())])
    assert perf.models.all_same(left[0], left[2])
    assert perf.models.all_same(left[1], left[2])


@torch.no_grad()
def test_a_way_that_raises_hides_no_other(
    perf: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One raises at once, the other when all that it is called for first is done."""
    calls = [0]

    def compiled(function: Callable[..., torch.Tensor], mode: str) -> Any:
        if mode == "default":
            raise ValueError("what it\ncannot compile")

        def run(new: tuple[torch.Tensor, ...]) -> torch.Tensor:
            calls[0] += 1
            if calls[0] > effort(perf).first_calls + 3:
                raise IndexError("overwritten")
            return function(*new)

        return run

    monkeypatch.setattr(perf.models, "compiled_at_first_call", compiled)
    found = measured(perf, model(perf))
    assert found["compile"]["error"] == "ValueError: what it"
    assert found["reduce_overhead"]["error"] == "IndexError: overwritten"
    assert found["region"]["bits"]
    assert found["region"]["replays"] > 0
    assert not any("error" in found[mode] for mode in MODES[:5])


@torch.no_grad()
def test_a_compilation_that_takes_too_long_is_left(
    perf: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(function: Callable[..., torch.Tensor], mode: str) -> Any:
        if mode == "default":
            time.sleep(60)
        return lambda new: function(*new)

    monkeypatch.setattr(perf.models, "compiled_at_first_call", compiled)
    found = measured(perf, model(perf), seconds=12.0)
    assert re.match("TimeoutError: it was not done after ", found["compile"]["error"])
    assert found["reduce_overhead"]["bits"]


def test_the_first_fast_call(perf: SimpleNamespace) -> None:
    calls = [(9.0, 9.0), (9.5, 0.5), (9.626, 0.126), (9.751, 0.125), (9.8, 0.05)]
    assert perf.front_rows.first_fast(calls, 0.1) == (4, 9.751)
    assert perf.front_rows.first_fast(calls, 8.0) == (1, 9.0)
    assert perf.front_rows.first_fast(calls, 0.01) is None


def a_record(tables: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """Of two models; one way failed on the second."""
    times = dict(
        zip(MODES, (400.0, 404.0, 200.0, 100.0, 80.0, 250.0, 50.0), strict=True)
    )
    where = {"gpu": "NVIDIA H100 80GB HBM3", "torch": "2.11.0", "commit": "abc"}
    record = {
        (program, mode): {
            "program": program,
            "mode": mode,
            "median_us": us,
            "bits": mode not in ("compile", "reduce_overhead"),
            **where,
        }
        for program in ("model:resnet50_fp16", "model:gpt2_bf16")
        for mode, us in times.items()
    }
    failed = ("model:gpt2_bf16", "compile")
    record[failed] = {"program": failed[0], "mode": "compile", "error": "no", **where}
    return record


draws = pytest.mark.skipif(not skips.has_matplotlib(), reason=skips.NO_MATPLOTLIB)


@draws
def test_the_figure_is_what_the_record_says(
    perf: SimpleNamespace, tmp_path: pathlib.Path
) -> None:
    paths = {theme: tmp_path / f"{theme}.svg" for theme in ("light", "dark")}
    record = a_record(perf.tables)
    perf.front_figure.draw(record, paths)
    drawn = {theme: path.read_text() for theme, path in paths.items()}
    assert drawn["light"] != drawn["dark"]
    perf.front_figure.draw(record, paths)
    assert drawn == {theme: path.read_text() for theme, path in paths.items()}
    for text in drawn.values():
        assert perf.tables.figure_says(text) == perf.tables.front_bars(record)
        # A bar is a path whose corners tell its height.
        heights = {}
        for name, path in re.findall(
            r'<g id="([^"]+: [^"]+)">\s*<path d="([^"]+)"', text
        ):
            ys = [float(y) for y in re.findall(r"[ML] \S+ (\S+)", path)]
            heights[name] = max(ys) - min(ys)
        assert len(heights) == 11
        one = heights["GPT-2: eager"]
        for name, times in (
            ("ResNet-50: eager", 1.0),
            ("ResNet-50: reprise.enable()", 2.0),
            ("ResNet-50: reprise.region", 4.0),
            ("ResNet-50: hand-written graph", 5.0),
            ("ResNet-50: torch.compile", 1.6),
            ("GPT-2: reduce-overhead", 8.0),
        ):
            assert heights[name] / one == pytest.approx(times, rel=1e-3), name
        assert "GPT-2: torch.compile" not in heights
        assert ">failed<" in text


@draws
def test_the_page_shows_figures_of_the_record(
    perf: SimpleNamespace, tmp_path: pathlib.Path
) -> None:
    """Those in docs/images are what the record gives again, byte by byte."""
    tables = perf.tables
    assert tables.stale_figures() == []
    if not tables.FRONT.exists():
        assert not any(path.exists() for path in tables.FRONT_FIGURES.values())
        return
    paths = {
        theme: tmp_path / path.name for theme, path in tables.FRONT_FIGURES.items()
    }
    perf.front_figure.draw(tables.read_front(), paths)
    for theme, path in paths.items():
        assert path.read_text() == tables.FRONT_FIGURES[theme].read_text()
