"""`reprise doctor`, in environments that are wrong in one thing each."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import fresh
import pytest
import skips
import torch
from reprise import _doctor_torch, _library

_DOCTOR = ("-m", "reprise", "doctor")
# Of the shell that runs the tests; each test says what it sets.
_UNSET: dict[str, str | None] = {
    name: None
    for name in os.environ
    if name.startswith("REPRISE") and name != "REPRISE_LIBRARY"
}


def doctor(
    *, works: bool, command: tuple[str, ...] = _DOCTOR, **variables: str | None
) -> dict[str, list[dict[str, str]]]:
    """The rows of `reprise doctor --json`, by what they check."""
    result = fresh.python(*command, "--json", **{**_UNSET, **variables})
    assert "Traceback" not in result.stderr, result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    assert told["works"] == works, result.stdout
    assert result.returncode == (0 if works else 1)
    rows: dict[str, list[dict[str, str]]] = {}
    for row in told["rows"]:
        assert row["status"] in ("ok", "warning", "error")
        assert bool(row["remedy"]) == (row["status"] != "ok"), row
        assert "has failed itself" not in row["found"], row
        rows.setdefault(row["check"], []).append(row)
    return rows


def the(rows: dict[str, list[dict[str, str]]], check: str, status: str) -> str:
    """What the only such row says, its remedy included."""
    (row,) = [row for row in rows[check] if row["status"] == status]
    return f"{row['found']}; {row['remedy']}"


def test_where_all_is_well_everything_is_looked_at() -> None:
    rows = doctor(works=True)
    assert set(rows) == {
        *("Python", "system", "torch", "CUDA", "GPU", "CUPTI", "NVRTC"),
        *("library", "switch", "variables", "cache", "trial"),
    }
    assert torch.__version__ in the(rows, "torch", "ok")
    assert sys.version.split()[0] in the(rows, "Python", "ok")
    assert "glibc 2." in the(rows, "system", "ok")
    assert "passes were replayed" in the(rows, "trial", "ok")
    for check in ("CUDA", "CUPTI", "NVRTC", "library", "switch"):
        assert the(rows, check, "ok")
    if skips.gpus() == 0:
        assert "correctness and not speed" in the(rows, "GPU", "warning")
    else:
        assert torch.cuda.get_device_name() in the(rows, "GPU", "ok")


@pytest.mark.gpu
@pytest.mark.skipif(skips.gpus() == 0, reason=skips.NO_GPU)
def test_where_all_is_well_with_a_gpu() -> None:
    test_where_all_is_well_everything_is_looked_at()


@pytest.mark.parametrize(
    "version",
    [
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jun  3 2025",
    ],
)
def test_the_drivers_version(
    version: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version").write_text(version + "\nGCC version: gcc 13.2.0\n")
    monkeypatch.setattr(_doctor_torch, "_DRIVER", tmp_path)
    assert "driver 580.159.04" in _doctor_torch.Here().gpu().found


def test_for_people_each_row_is_a_line_or_two() -> None:
    result = fresh.python(*_DOCTOR, **{**_UNSET, "REPRISE_POLCY": "always"})
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].startswith("ok       Python     CPython 3.")
    assert lines[-1].startswith("Reprise works here, with ")
    (unknown,) = [i for i, line in enumerate(lines) if "REPRISE_POLCY" in line][:1]
    assert lines[unknown].startswith("warning  variables")
    assert lines[unknown + 1].strip() == "what helps: did you mean REPRISE_POLICY?"


def test_a_folder_without_a_library(tmp_path: pathlib.Path) -> None:
    rows = doctor(works=False, REPRISE_LIBRARY=str(tmp_path))
    told = the(rows, "library", "error")
    assert str(tmp_path) in told
    assert "Unset REPRISE_LIBRARY" in told
    assert "trial" not in rows


def test_a_folder_that_is_none(tmp_path: pathlib.Path) -> None:
    rows = doctor(works=False, REPRISE_LIBRARY=str(tmp_path / "none"))
    assert "name the folder" in the(rows, "library", "error")


def test_a_file_that_is_no_library(tmp_path: pathlib.Path) -> None:
    minor = "".join(torch.__version__.split(".")[:2])
    library = tmp_path / f"libreprise_torch_{minor}.so"
    library.write_text("no library, however long it may be\n" * 100)
    told = the(doctor(works=False, REPRISE_LIBRARY=str(tmp_path)), "library", "error")
    assert f"cannot load {library}: invalid ELF header" in told
    assert "Install Reprise anew" in told


def test_switched_off_is_a_warning_and_the_rest_is_looked_at() -> None:
    for value in ("0", "off"):
        rows = doctor(works=True, REPRISE=value)
        assert f"REPRISE={value} switches everything off" in the(
            rows, "switch", "warning"
        )
        assert "passes were replayed" in the(rows, "trial", "ok")


def test_variables_that_are_none_of_ours_and_values_that_are_refused() -> None:
    rows = doctor(
        works=False,
        REPRISE_POLCY="always",
        REPRISE_MARGIN="wide",
        REPRISE_LOG="loud",
        REPRISE_MAX_TRACE_OPS="64",
    )
    assert "did you mean REPRISE_POLICY?" in the(rows, "variables", "warning")
    refused = [row for row in rows["variables"] if row["status"] == "error"]
    assert [row["found"].partition(":")[0] for row in refused] == [
        "REPRISE_LOG",
        "REPRISE_MARGIN",
    ]
    assert refused[1]["remedy"] == "give a number from 0 to 1"
    assert "passes were replayed" in the(rows, "trial", "ok")


def test_without_a_library_variables_cannot_be_checked(tmp_path: pathlib.Path) -> None:
    rows = doctor(works=False, REPRISE_LIBRARY=str(tmp_path), REPRISE_MARGIN="wide")
    assert "REPRISE_MARGIN cannot be checked" in the(rows, "variables", "warning")


def test_a_cache_that_nothing_can_be_written_to(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for folder, why in (
        (tmp_path / "file" / "below", "it cannot be made in"),
        (tmp_path / "file", "it is not a folder"),
        (shared, "others may write to it"),
    ):
        rows = doctor(works=True, REPRISE_CACHE_DIR=str(folder))
        told = the(rows, "cache", "warning")
        assert f"{folder}: {why}" in told
        assert "let REPRISE_CACHE_DIR name" in told
    assert not (tmp_path / "new").exists()
    rows = doctor(works=True, REPRISE_CACHE_DIR=str(tmp_path / "new"))
    assert "(not made yet)" in the(rows, "cache", "ok")
    assert not (tmp_path / "new").exists()


def test_a_tool_that_is_attached() -> None:
    """CUDA would load the tool: here it only looks as if."""
    rows = doctor(works=True, NVTX_INJECTION64_PATH="/opt/tool/libinjection.so")
    assert "/opt/tool/libinjection.so" in the(rows, "CUPTI", "warning")


def test_without_torch() -> None:
    """`-S`: the folder that torch is installed in is not looked into."""
    rows = doctor(works=False, command=("-S", *_DOCTOR))
    assert "torch is not installed" in the(rows, "torch", "error")
    assert the(rows, "torch", "error").endswith(f"; {_library.install_torch()}")
    assert "there are libraries for torch: 2." in the(rows, "library", "error")
    assert the(rows, "Python", "ok")


def test_another_torch_that_the_package_does_not_know(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '1.0.0'\n")
    path = os.pathsep.join([str(tmp_path), str(fresh.PACKAGE_ROOT)])
    result = fresh.python(*_DOCTOR, "--json", **{**_UNSET, "PYTHONPATH": path})
    assert result.returncode == 1, result.stderr
    found = {row["check"]: row for row in json.loads(result.stdout)["rows"]}
    assert found["library"]["status"] == "error"
    assert "no library for torch 1.0.0" in found["library"]["found"]
    run = _library.install_torch("1.0.0")
    assert found["library"]["remedy"] == f"Run {run}"  # 1.0 does not compile


def test_a_torch_for_another_cuda_has_one_of_the_packages_libraries_proposed(
    tmp_path: pathlib.Path,
) -> None:
    """It is installed over the one that is there, whose version pip finds good."""
    for digits in ("211", "215"):
        (tmp_path / f"libreprise_torch_{digits}.so").touch()
    for version, best, other in (
        ("2.12.0", "2.11", "2.15"),
        ("2.15.1", "2.15", "2.11"),
    ):
        result = fresh.program(
            f"""
            import torch
            torch.__version__ = "{version}+cu128"
            torch.version.cuda = "12.8"
            from reprise.__main__ import main
            main(["doctor", "--json"])
            """,
            **{**_UNSET, "REPRISE_LIBRARY": str(tmp_path)},
        )
        found = {row["check"]: row for row in json.loads(result.stdout)["rows"]}
        assert found["CUDA"]["found"] == "this torch is for CUDA 12.8"
        assert found["CUDA"]["remedy"] == (
            f"`pip install 'torch=={best}.*' --force-reinstall` (or {other})"
        )


def test_torch_that_cannot_be_imported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch").mkdir()
    text = "raise OSError('libcudart.so.13: cannot open shared object file')\n"
    (tmp_path / "torch" / "__init__.py").write_text(text)
    path = os.pathsep.join([str(tmp_path), str(fresh.PACKAGE_ROOT)])
    rows = doctor(works=False, PYTHONPATH=path)
    assert "OSError: libcudart.so.13" in the(rows, "torch", "error")


def test_a_newer_torch_without_a_library() -> None:
    result = fresh.program(
        """
        import torch
        torch.__version__ = "2.99.1+cu130"
        from reprise.__main__ import main
        main(["doctor"])
        """,
        **_UNSET,
    )
    assert result.returncode == 1, result.stderr
    assert "error    library    reprise has no library for torch 2.99.1" in (
        result.stdout
    )
    assert result.stdout.endswith("Reprise does not work here: 1 error\n")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("-m", "reprise", "options"), "reprise needs torch, which is not installed"),
        (("-c", "import reprise"), "ImportError: reprise needs torch, which is not"),
    ],
)
def test_without_torch_one_sentence_says_so(
    args: tuple[str, ...], sentence: str
) -> None:
    result = fresh.python("-S", *args)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith(sentence)
    assert last.endswith(f"run {_library.install_torch()}")
