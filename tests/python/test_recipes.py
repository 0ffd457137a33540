"""Each recipe runs, is replayed, and has eager's bits: by its own comparison."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import runpy
from typing import Any

import fresh
import pytest
import skips
import torch

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "recipes"
SHARED = {"checks", "texts", "two_processes"}
# By recipe, the libraries that it needs beside torch.
LIBRARIES = {
    "accelerate_training": ["accelerate"],
    "ddp": [],
    "diffusers_sampler": ["diffusers"],
    "fsdp": [],
    "geometric_graph": ["torch_geometric"],
    "lightning_training": ["pytorch_lightning"],
    "timm_models": ["timm"],
    "transformers_generate": ["transformers"],
    "transformers_generate_static": ["transformers"],
    "transformers_trainer": ["accelerate", "transformers"],
}
OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("name", LIBRARIES)
def test_recipe(name: str, tmp_path: pathlib.Path) -> None:
    for library in LIBRARIES[name]:
        if importlib.util.find_spec(library) is None:
            pytest.skip(skips.NO_LIBRARY.format(library))
    recipe = str(RECIPES / f"{name}.py")
    result = fresh.python(recipe, cwd=tmp_path, **OFFLINE)
    assert result.returncode == 0, result.stderr
    assert "have eager's bits" in result.stdout


def test_every_recipe_has_a_test_and_a_row_of_the_table() -> None:
    names = {file.stem for file in RECIPES.glob("*.py")} - SHARED
    assert names == LIBRARIES.keys()
    table = (RECIPES.parents[1] / "docs" / "recipes.md").read_text()
    assert [name for name in names if f"/{name}.py)" not in table] == []


@pytest.mark.parametrize(
    ("bit", "said"), [("1.0", "0 replays answered"), ("-1.0", "1 of 1 results")]
)
def test_a_recipe_fails_for_want_of_replays_or_bits(bit: str, said: str) -> None:
    program = f"""
        import checks, torch
        checks.finish([torch.tensor(1.0)], [torch.tensor({bit})], least=0.1)
    """
    result = fresh.program(program, PYTHONPATH=f"{RECIPES}:{fresh.PACKAGE_ROOT}")
    assert result.returncode == 1
    assert said in result.stderr


def test_the_comparison_sees_every_bit() -> None:
    same: Any = runpy.run_path(str(RECIPES / "checks.py"))["same"]
    nan = torch.full((2, 3), float("nan"))
    assert same(nan, nan.clone())
    assert same(torch.arange(6).view(2, 3).t(), torch.tensor([[0, 3], [1, 4], [2, 5]]))
    assert same(torch.tensor(1.0), torch.tensor(1.0))
    assert not same(torch.zeros(3), -torch.zeros(3))
    assert not same(torch.zeros(3), torch.zeros(3, dtype=torch.int32))
    assert not same(torch.zeros(2, 3), torch.zeros(6))
    assert not same(torch.tensor(1.0), 1.0)
    assert not same(1.0, 1)


def test_no_recipe_is_skipped_where_all_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = skips.NO_LIBRARY.format("timm")
    monkeypatch.delenv("RECIPES", raising=False)
    assert skips.allowed(reason)
    monkeypatch.setitem(os.environ, "RECIPES", "all")
    assert not skips.allowed(reason)
