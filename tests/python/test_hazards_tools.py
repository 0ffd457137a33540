"""Programs that run under other tools: eager's results, and a reason in the report.

A GPU, and the tools, which come with a CUDA toolkit (`compute-sanitizer`, `ncu`).
"""

from __future__ import annotations

import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
from typing import Any

import pytest
import reprise
import skips
import torch

pytestmark = pytest.mark.gpu

PACKAGE_ROOT = pathlib.Path(reprise.__file__).resolve().parents[1]
TIMEOUT_S = 540.0  # tools look at every launch

# Writes what it found to the file that it is given.
PROGRAM = """
    import json, sys
    import torch, reprise

    torch.manual_seed(7)
    weights = [torch.randn(64, 64, device="cuda") for _ in range(4)]
    inputs = [torch.randn(8, 64, device="cuda") for _ in range(14)]

    def step(x):
        for weight in weights:
            x = torch.relu(x @ weight) * 0.5 + x
        return x.softmax(-1)

    def passes(session):
        found = []
        for x in inputs:
            found.append(step(x))
            assert session.wait(120)
        return found

    def same(found):
        expected = [step(x) for x in inputs]
        return all(
            torch.equal(a.view(torch.int32), b.view(torch.int32))
            for a, b in zip(found, expected, strict=True)
        )

    def look(session, found):
        stats = session.stats()
        report = session.explain()
        return {
            "recorded": stats.recorded,
            "replays": stats.replays,
            "rejected": stats.rejected,
            "notes": report.to_dict()["notes"],
            "report": str(report),
        }

    said = {}
"""

WATCHED = """
    with reprise.session("cuda", policy="always") as session:
        found = passes(session)
        said = look(session, found)
    said["same"] = same(found)
"""

# A tool in the same process that came first, as CUPTI's users do, and its end.
HELD = """
    import ctypes

    torch.cuda.synchronize()
    cupti = ctypes.CDLL("libcupti.so.13")
    callback = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p
    )(lambda *arguments: None)
    holder = ctypes.c_void_p()
    with reprise.session("cuda", policy="always") as session:
        step(inputs[0])
        assert session.wait(120)  # CUPTI was attached ahead of time
        assert cupti.cuptiSubscribe(ctypes.byref(holder), callback, None) == 0
        found = passes(session)
        said = look(session, found)
        assert cupti.cuptiUnsubscribe(holder) == 0
        found += passes(session)
        said["then"] = look(session, found)
    said["same"] = same(found[: len(inputs)]) and same(found[len(inputs) :])
"""

END = """
    with open(sys.argv[1], "w") as file:
        json.dump(said, file)
"""


def _find(tool: str) -> str:
    """Where a tool is: on the path, in a toolkit, in a wheel; else the test is skipped."""
    wheels = pathlib.Path(torch.__file__).resolve().parents[1] / "nvidia"
    candidates = [
        shutil.which(tool),
        *sorted(glob.glob(f"/usr/local/cuda*/bin/{tool}"), reverse=True),
        *sorted(map(str, wheels.glob(f"**/{tool}"))),
    ]
    for candidate in candidates:
        if candidate and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    pytest.skip(skips.NO_TOOL.format(tool))


def _run(
    folder: pathlib.Path, body: str, *command: str, ends_well: bool = True
) -> dict[str, Any]:
    """What the program says that runs `body`, under a tool's command line."""
    if skips.gpus() == 0:
        pytest.skip(skips.NO_GPU)
    program = folder / "program.py"
    program.write_text("".join(map(textwrap.dedent, (PROGRAM, body, END))))
    said = folder / "said.json"
    result = subprocess.run(
        [*command, sys.executable, "-W", "ignore", str(program), str(said)],
        env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    output = result.stdout[-8000:] + result.stderr[-8000:]
    assert said.exists(), output
    if ends_well:
        assert result.returncode == 0, output
    print(said.read_text())  # for people: what this tool lets Reprise do
    return json.loads(said.read_text())


def _check(said: dict[str, Any]) -> None:
    """Eager's results; and replays, or a note that says why nothing is recorded."""
    assert said["same"]
    assert said["rejected"] == 0, said["report"]
    told = [note for note in said["notes"] if note.startswith("nothing is recorded: ")]
    if said["recorded"] == 0:
        assert said["replays"] == 0
        assert told, said["report"]
        assert told[0] in said["report"]
    else:
        assert said["replays"] > 0, said["report"]
        assert not told, said["report"]


def test_as_it_is_without_a_tool(tmp_path: pathlib.Path) -> None:
    said = _run(tmp_path, WATCHED)
    _check(said)
    assert said["replays"] > 0, said["report"]


def test_cupti_held_by_another(tmp_path: pathlib.Path) -> None:
    """Nothing is recorded while another holds CUPTI, and all is well afterwards."""
    said = _run(tmp_path, HELD)
    _check(said)
    assert said["recorded"] == 0, said["report"]
    assert any("another tool holds CUPTI" in note for note in said["notes"])
    assert said["then"]["replays"] > 0, said["then"]["report"]


def test_compute_sanitizer(tmp_path: pathlib.Path) -> None:
    """No access that the sanitizer finds wrong, besides."""
    tool = _find("compute-sanitizer")
    said = _run(
        tmp_path,
        WATCHED,
        *(tool, "--tool", "memcheck", "--target-processes", "all"),
        # Torch asks for what may fail; what it does with memory must not.
        *("--report-api-errors", "no", "--error-exitcode", "99"),
    )
    _check(said)


def test_nsight_compute(tmp_path: pathlib.Path) -> None:
    """It may have no leave to read counters, and end badly; the program does not."""
    tool = _find("ncu")
    command = (tool, "--target-processes", "all", "--launch-skip", "5")
    said = _run(tmp_path, WATCHED, *command, "--launch-count", "2", ends_well=False)
    _check(said)
