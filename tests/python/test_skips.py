"""A test that is skipped without a reason that holds fails its run."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import skips

HERE = pathlib.Path(__file__).resolve().parent


RIGHT = f"""
import pytest
def test_a_reason_that_holds(): pytest.skip({skips.NO_TOOL.format("ncu")!r})
"""
WRONG = """
import pytest
def test_within(): pytest.skip("not today")
@pytest.mark.skip(reason="not today")
def test_marked(): pass
@pytest.mark.xfail
def test_expected(): raise ValueError
@pytest.fixture
def one(): pytest.skip("not today")
def test_by_a_fixture(one): pass
"""
WHOLE = """
import pytest
pytest.skip("not today", allow_module_level=True)
"""


def test_a_skip_without_a_reason_fails(tmp_path: pathlib.Path) -> None:
    for name, text in (("right", RIGHT), ("wrong", WRONG), ("whole", WHOLE)):
        (tmp_path / f"test_{name}.py").write_text(text)
    options = ["-pconftest", "-pno:cacheprovider", "--continue-on-collection-errors"]
    options += ["-rN"]  # The summary names each once more, whole where CI is set.
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", tmp_path],
        env={**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "2 failed, 1 skipped, 3 errors" in result.stdout
    assert result.stdout.count("skipped, for which skips.py has no reason") == 5
    assert result.returncode == 1


def test_a_gpu_is_not_missed_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for devices, seen in (([], 0), (["nvidia0"], 0), (["nvidia0"], 1)):
        monkeypatch.setattr(pathlib.Path, "glob", lambda *_, found=devices: iter(found))
        monkeypatch.setattr(skips, "gpus", lambda seen=seen: seen)
        assert skips.allowed(skips.NO_GPU) == (not devices)
        assert skips.allowed(skips.FEW_GPUS) == (not devices or seen == 1)
        assert skips.allowed(skips.A_GPU) == (seen > 0)
