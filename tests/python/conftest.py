"""What all Python tests share: the package, devices, and bitwise comparison."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest
import torch

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))  # for the modules that tests share
if importlib.util.find_spec("reprise") is None:  # else installed or on PYTHONPATH
    sys.path.insert(0, str(here.parents[1] / "bindings" / "python"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:reprise. on the CPU")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    torch.manual_seed(20)
    return str(request.param)
