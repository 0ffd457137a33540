"""Examples do what they say."""

from __future__ import annotations

import pathlib
import runpy
import sys
from typing import Any

import pytest
import reprise

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def test_batch_server(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["batch_server.py", "--device", device, "--requests", "60"]
    monkeypatch.setattr(sys, "argv", command)
    try:
        main: Any = runpy.run_path(str(EXAMPLES / "batch_server.py"))["main"]
        server: Any = main()
    finally:
        reprise.disable()
    report = server.fast.explain()
    assert server.wrong == 0
    assert sum(n * size for size, n in server.sizes.items()) == 6 * 60
    assert report.replayed > report.calls // 2, str(report)
