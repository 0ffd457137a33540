"""Which library is loaded, and what a message proposes where none can be."""

from __future__ import annotations

import pathlib
import re

import pytest
import test_torch_versions
from reprise import _library

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = "run `pip install .` in its source"


def have(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, *versions: str) -> None:
    """The package has libraries for these versions of torch and for no other."""
    for digits in versions:
        (folder / f"libreprise_torch_{digits}.so").touch()
    monkeypatch.delenv("REPRISE_LIBRARY", raising=False)
    monkeypatch.setattr(_library, "folders", lambda: iter([folder]))


def test_a_library_is_chosen_by_the_version_of_torch(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(tmp_path, monkeypatch, "211", "215")
    for version, digits in [("2.11.3+cpu", "211"), ("2.15.0a0+git1", "215")]:
        library = tmp_path / f"libreprise_torch_{digits}.so"
        assert _library.library_for(version) == library
    for version in ("2.10.1+cu128", "2.110.0", "2.16.0"):
        with pytest.raises(RuntimeError) as caught:
            _library.library_for(version)
        assert f"no library for torch {version}" in str(caught.value)
        assert "2.11, 2.15" in str(caught.value)


@pytest.mark.parametrize(
    ("versions", "near", "command"),
    [
        (["211"], "", "`pip install 'torch==2.11.*'`"),
        (["211"], "2.16.0", "`pip install 'torch==2.11.*'`"),
        (["211", "215"], "", "`pip install 'torch==2.11.*'` (or 2.15)"),
        (["215", "211"], "2.10.0+cu128", "`pip install 'torch==2.11.*'` (or 2.15)"),
        (["211", "215"], "2.14.1", "`pip install 'torch==2.15.*'` (or 2.11)"),
        (["29", "211", "213"], "3.0", "`pip install 'torch==2.13.*'` (or 2.9 or 2.11)"),
        ([], "", "`pip install 'torch==2.11.*'` (or 2.12, 2.13, 2.14 or 2.15)"),
        ([], "2.99", "`pip install 'torch==2.15.*'` (or 2.11, 2.12, 2.13 or 2.14)"),
    ],
)
def test_a_torch_that_there_is_a_library_for_is_proposed(
    versions: list[str],
    near: str,
    command: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    have(tmp_path, monkeypatch, *versions)
    assert _library.install_torch(near) == command


@pytest.mark.parametrize(
    ("versions", "torch", "remedy"),
    [
        (["211", "215"], "2.10.0", "Run `pip install 'torch==2.11.*'` (or 2.15)"),
        (
            ["211", "215"],
            "2.14.1",
            "Run `pip install 'torch==2.15.*'` (or 2.11), or build Reprise for this torch: "
            + SOURCE,
        ),
        (
            ["211"],
            "2.16.0",
            "Run `pip install 'torch==2.11.*'`, or build Reprise for this torch: "
            f"{SOURCE}, made for torch up to 2.15",
        ),
        ([], "2.12.0", f"Build Reprise for this torch: {SOURCE}"),
        (
            [],
            "2.10.0",
            "Run `pip install 'torch==2.11.*'` (or 2.12, 2.13, 2.14 or 2.15) and build "
            f"Reprise: {SOURCE}",
        ),
    ],
)
def test_what_helps_can_work_with_the_torch_that_is_there(
    versions: list[str],
    torch: str,
    remedy: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older torch does not compile, so nobody is told to build for it."""
    have(tmp_path, monkeypatch, *versions)
    with pytest.raises(RuntimeError) as caught:
        _library.library_for(torch)
    assert str(caught.value).endswith(f"). {remedy}")


def test_the_versions_that_compile_are_the_builds() -> None:
    """They stand in more than one file, because each is read where no other is."""
    cmake = (ROOT / "CMakeLists.txt").read_text()
    range_ = {
        name: re.search(rf"set\(REPRISE_TORCH_{name} ([\d.]+)\)", cmake)
        for name in ("OLDEST", "TESTED", "NEWEST")
    }
    oldest, tested, newest = (found and found[1] for found in range_.values())
    assert (oldest, newest) == (_library.OLDEST, _library.NEWEST)
    known = list(test_torch_versions.LACKING)
    assert (known[0], known[-1]) == (oldest, newest)
    assert tested in known
    assert f'"torch>={oldest}"' in (ROOT / "pyproject.toml").read_text()
    header = (ROOT / "bindings/torch/base/torch_versions.h").read_text()
    assert f"with, {oldest} to {newest}." in header
    limits = " ".join((ROOT / "docs/limits.md").read_text().split())
    assert f"torch {tested} (the pip wheel for CUDA 13)" in limits
    assert f" to {newest}. They are not supported yet" in limits


def test_a_library_that_does_not_load_says_the_loaders_reason(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(tmp_path, monkeypatch, "211", "215")
    path = pathlib.Path("/x/libreprise_torch_211.so")

    def why(reason: str) -> str:
        """As torch raises it."""
        error = OSError(f"Could not load this library: {path}")
        error.__cause__ = OSError(reason)
        return _library.why_not_loaded(path, error)

    missing = "{}: cannot open shared object file: No such file or directory"
    assert why(missing.format("libtbb.so.12")) == (
        "reprise cannot load /x/libreprise_torch_211.so: it needs libtbb.so.12, which is "
        "not found. Install TBB (`apt-get install libtbb12`)"
    )
    assert why(missing.format("libcupti.so.13")).endswith(
        "which is not found. Install torch for CUDA 13: `pip install 'torch==2.11.*' "
        "--force-reinstall` (or 2.15)"
    )
    assert "`pip install .`" in why(f"{path}: undefined symbol: _ZN2at4fooE")
    assert "glibc 2.34" in why("libc.so.6: version `GLIBC_2.34' not found")
    assert "nothing known. Install Reprise anew" in why("nothing known")
