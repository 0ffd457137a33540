"""What all Python tests share: the package, devices, and bitwise comparison."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
from collections.abc import Generator, Iterator

import pytest
import torch

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))  # for the modules that tests share
if importlib.util.find_spec("reprise") is None:  # else installed or on PYTHONPATH
    sys.path.insert(0, str(here.parents[1] / "bindings" / "python"))

import reprise  # noqa: E402
import skips  # noqa: E402
import watching  # noqa: E402
from registry import effects  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--build-delays",
        type=int,
        default=0,
        metavar="SEED",
        help="builds finish after random delays, and programs wait for them at random",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:reprise. on the CPU")
    if seed := config.getoption("--build-delays"):
        os.environ["REPRISE_BUILD_DELAYS"] = str(seed)  # of processes to come, too


@pytest.fixture(autouse=True)
def _build_delays(request: pytest.FixtureRequest) -> Iterator[None]:
    seed = request.config.getoption("--build-delays")
    with watching.waiting_at_random(f"{seed} {request.node.nodeid}" if seed else None):
        yield


@pytest.fixture(autouse=True)
def _switches_are_left() -> Iterator[None]:
    """A switch of torch's that one test leaves changed fails others, far from it."""
    before = effects.switches()
    yield
    assert effects.switches() == before, "this test leaves torch's switches changed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _check_skip(report)
    if report.failed and (seed := item.config.getoption("--build-delays")):
        report.sections.append(("build delays", f"--build-delays={seed}"))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _check_skip(report)
    return report


def _check_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """A skip for a reason that does not hold here is a failure."""
    if not report.skipped:
        return
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else "xfail"
    reason = told.removeprefix("Skipped: ")
    if not skips.allowed(reason):
        report.outcome = "failed"
        vars(report).pop("wasxfail", None)
        report.longrepr = f"skipped, for which skips.py has no reason: {reason!r}"


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and skips.gpus() == 0:
        pytest.skip(skips.NO_GPU)
    torch.manual_seed(20)
    return str(request.param)


@pytest.fixture
def replaying(device: str) -> Iterator[None]:
    """A session that replays whatever it can."""
    with reprise.session(device, policy="always"):
        yield
