"""Checks of `reprise doctor` that need torch or the library."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pathlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

from reprise import _library, _variables
from reprise._doctor_system import Row, Status, first, numbers, short

_CUDA_MAJOR = 13  # of the libraries of CUDA that are looked for
_OLDEST_DRIVER = 580
_PASSES = 24  # of the trial
_WAIT_S = 10.0
_REINSTALL = "--force-reinstall"
_INJECTED = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
_DRIVER = pathlib.Path("/proc/driver/nvidia")
_MAPS = pathlib.Path("/proc/self/maps")
_ALWAYS_READ = ("REPRISE_CACHE_DIR", "REPRISE_LIBRARY")


class Here:
    """Torch and the library, if they are there."""

    def __init__(self) -> None:
        self.torch: Any = None
        self.ops: Any = None
        self.native: Any = None
        self.has_gpu = False
        self._why = ""
        self._is_missing = False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.torch = importlib.import_module("torch")
        except Exception as error:
            self._is_missing = isinstance(error, ModuleNotFoundError)
            self._why = short(error)

    @property
    def version(self) -> str:
        """The version of torch; empty without torch."""
        return str(getattr(self.torch, "__version__", "") or "")

    def torch_row(self) -> Row:
        """Check which torch there is, and where."""
        if self.torch is None:
            found = "is not installed" if self._is_missing else "cannot be imported"
            flags = "" if self._is_missing else _REINSTALL
            remedy = _library.install_torch(flags=flags)
            return Row("torch", "error", f"torch {found} ({self._why})", remedy)
        if not self.version:
            remedy = _library.install_torch(flags=_REINSTALL)
            return Row("torch", "error", "torch has no version", remedy)
        return Row(
            "torch",
            "ok",
            f"{self.version} in {os.path.dirname(self.torch.__file__ or '')}",
        )

    def cuda(self) -> Iterator[Row]:
        """Check the CUDA version that torch was built for."""
        if self.torch is None:
            return
        of = getattr(self.torch, "version", None)
        cuda = getattr(of, "cuda", None)
        remedy = _library.install_torch(self.version, _REINSTALL)
        if getattr(of, "hip", None) or not cuda:
            what = "ROCm" if getattr(of, "hip", None) else "the CPU alone"
            yield Row("CUDA", "error", f"this torch is for {what}", remedy)
        elif numbers(cuda)[:1] != (_CUDA_MAJOR,):
            yield Row("CUDA", "error", f"this torch is for CUDA {cuda}", remedy)
        else:
            yield Row("CUDA", "ok", f"torch is for CUDA {cuda}")

    def gpu(self) -> Row:
        """Check the driver, and the GPUs that torch finds."""
        driver = first(r"Kernel Module.*?\s(\d+\.[\d.]+)", _DRIVER / "version")
        told = f"driver {driver}" if driver else "no NVIDIA driver"
        said: list[str] = []
        if self.torch is not None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.has_gpu = bool(self.torch.cuda.is_available())
                names = [
                    self.torch.cuda.get_device_name(index)
                    for index in range(self.torch.cuda.device_count())
                ]
            said = [" ".join(str(each.message).split()) for each in caught]
        if not self.has_gpu:
            return _no_gpu(driver, told, said)
        counts = {name: names.count(name) for name in names}
        found = ", ".join(f"{count} x {name}" for name, count in counts.items())
        if driver and numbers(driver)[0] < _OLDEST_DRIVER:
            remedy = f"install driver {_OLDEST_DRIVER} or later"
            return Row("GPU", "warning", f"{found}, {told}", remedy)
        return Row("GPU", "ok", f"{found}, {told}")

    def cupti(self) -> Iterator[Row]:
        """Check CUPTI's library, and whether another tool is attached. Asks no device."""
        path = self._open(f"libcupti.so.{_CUDA_MAJOR}")
        missing: Status = "error" if self.has_gpu else "warning"
        if path is None:
            remedy = f"`pip install 'nvidia-cuda-cupti=={_CUDA_MAJOR}.*'`"
            yield Row("CUPTI", missing, "its library is not found", remedy)
        tools = [f"{each}={os.environ[each]}" for each in _INJECTED if os.getenv(each)]
        if tools:
            yield Row(
                "CUPTI",
                "warning",
                f"a tool is attached ({', '.join(tools)}): nothing is recorded while it "
                "holds CUPTI",
                "start the program without the tool",
            )
        elif path is not None:
            alone = first(r"RmProfilingAdminOnly: *(\d)", _DRIVER / "params")
            may = {
                "1": "; its counters are the administrator's alone, which Reprise does "
                "not need"
            }
            yield Row(
                "CUPTI", "ok", f"{path[0]}, no tool is attached{may.get(alone, '')}"
            )

    def nvrtc(self) -> Row:
        """Check the compiler of kernels against torch's CUDA version."""
        found = self._open(f"libnvrtc.so.{_CUDA_MAJOR}")
        cuda = getattr(getattr(self.torch, "version", None), "cuda", None) or ""
        wanted = ".".join(map(str, numbers(cuda)[:2])) or f"{_CUDA_MAJOR}"
        remedy = f"`pip install 'nvidia-cuda-nvrtc=={wanted}.*'`"
        if found is None:
            missing: Status = "error" if self.has_gpu else "warning"
            return Row("NVRTC", missing, "its library is not found", remedy)
        path, library = found
        major, minor = ctypes.c_int(), ctypes.c_int()
        if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) != 0:
            return Row("NVRTC", "warning", f"{path} does not tell its version", remedy)
        version = f"{major.value}.{minor.value}"
        if cuda and version != wanted:
            beside = f"{version} ({path}), and torch is for CUDA {cuda}"
            return Row("NVRTC", "warning", beside, remedy)
        return Row("NVRTC", "ok", f"{version} ({path})")

    def _open(self, soname: str) -> tuple[str, ctypes.CDLL] | None:
        """Where the library looks: what is loaded, the loader's, torch's, CUDA's."""
        folders = ["/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64"]
        if self.torch is not None and self.torch.__file__:
            packages = pathlib.Path(self.torch.__file__).parents[1]
            folders.insert(0, str(packages / "nvidia" / f"cu{_CUDA_MAJOR}" / "lib"))
        for path in (soname, *(f"{folder}/{soname}" for folder in folders)):
            try:
                library = ctypes.CDLL(path)
            except OSError:
                continue
            return first(rf"(/\S*/{re.escape(soname)}\S*)", _MAPS) or path, library
        return None

    def library(self) -> Row:
        """Load the library for this torch."""
        there = ", ".join(_library.versions()) or "none"
        if not self.version:
            return Row(
                "library",
                "error",
                f"there are libraries for torch: {there}",
                "install torch first: which library is needed goes by its version",
            )
        try:
            path = _library.library_for(self.version)
            self.native = importlib.import_module("reprise._native")
            self.ops = self.native._ops()
        except Exception as error:
            told, _, remedy = str(error).rpartition(". ")
            if isinstance(error, RuntimeError) and told:
                return Row("library", "error", told, remedy)
            remedy = _library.install_torch(self.version, _REINSTALL)
            return Row(
                "library", "error", short(error), f"{remedy}, and install Reprise anew"
            )
        return Row("library", "ok", f"{path} (there are some for torch: {there})")

    def variables(self) -> Iterator[Row]:
        """Check names and values of variables, as `enable` reads them."""
        here = {name: os.environ[name] for name in _variables.ours()}
        if self.ops is None:
            if here:
                remedy = "fix the library first"
                told = f"{', '.join(here)} cannot be checked without the library"
                yield Row("variables", "warning", told, remedy)
            return
        options = {row[1]: row[0] for row in self.native.option_rows()}
        for name, proposal in _variables.unknown(options).items():
            remedy = f"did you mean {proposal}?" if proposal else f"`unset {name}`"
            yield Row("variables", "warning", f"there is no variable {name}", remedy)
        for name, value in here.items():
            if name in options and (why := self._why_refused(options[name], value)):
                told, _, accepted = why.rpartition(": ")
                yield Row("variables", "error", f"{name}: {told}", accepted)
        told = ", ".join(f"{name}={value}" for name, value in here.items())
        yield Row("variables", "ok", told or "none is set")

    def _why_refused(self, option: str, value: str) -> str:
        """The library's sentence; empty: it takes the value. Enables nothing."""
        if not value or (option == "enabled" and _variables.is_switch(value)):
            return ""
        with _without_options():
            off = {} if option == "enabled" else {"enabled": "0"}
            failure = self.ops.enable("cpu", {**off, option: value})
        return str(failure[1]) if failure else ""

    def trial(self) -> Iterator[Row]:
        """Repeat a few ops, as an enabled program does."""
        if self.ops is None:
            return
        device = "cuda" if self.has_gpu else "cpu"
        where = "the GPU" if self.has_gpu else "the host executor"
        with _without_options(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                replays, notes, is_right = self._replays(device)
            except Exception as error:
                remedy = "fix the rows above; if all are ok, report this as a bug"
                yield Row("trial", "error", short(error), remedy)
                return
        if not is_right:
            remedy = "report this as a bug, and set REPRISE=0 until it is fixed"
            yield Row(
                "trial", "error", f"other results than eager's on {where}", remedy
            )
        elif not replays:
            why = f" ({notes[0]})" if notes else ""
            remedy = "end what the note names" if notes else "report this as a bug"
            yield Row("trial", "error", f"nothing was replayed on {where}{why}", remedy)
        else:
            told = f"{replays} of {_PASSES} passes were replayed on {where}, with eager's bits"
            yield Row("trial", "ok", told)

    def _replays(self, device: str) -> tuple[int, list[str], bool]:
        x = self.torch.arange(16.0, device=device)

        def step() -> Any:
            return ((x * 2).relu() - 1).sum().item()

        expected = step()
        self.native.enable(device, {"policy": "always"})
        try:
            found = []
            for _ in range(_PASSES):
                found.append(step())
                self.native.wait(None, _WAIT_S)
            notes = self.native.explain(None).to_dict().get("notes", [])
            replays: int = self.native.stats(None).replays
        finally:
            self.native.activate(None)
        return replays, notes, found == [expected] * _PASSES


def _no_gpu(driver: str, told: str, said: list[str]) -> Row:
    """`said`: warnings of torch's, as it looked for one."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not driver:
        return Row(
            "GPU",
            "warning",
            f"no GPU, {told}: replays run on the host executor, which shows correctness "
            "and not speed",
            f"use a machine with an NVIDIA GPU and driver {_OLDEST_DRIVER} or later",
        )
    if hidden is not None:
        return Row(
            "GPU",
            "warning",
            f"{told}, and CUDA_VISIBLE_DEVICES='{hidden}' leaves torch no GPU",
            "`unset CUDA_VISIBLE_DEVICES`, or name a GPU that exists",
        )
    why = f" ({'; '.join(said)})" if said else ""
    return Row(
        "GPU",
        "error",
        f"{told}, and torch finds no GPU{why}",
        f"install driver {_OLDEST_DRIVER} or later; in a container, start it with its GPUs "
        "(`docker run --gpus all`)",
    )


@contextlib.contextmanager
def _without_options() -> Iterator[None]:
    """What is tried meanwhile goes by no variable of the environment."""
    before = {
        name: os.environ.pop(name)
        for name in _variables.ours()
        if name not in _ALWAYS_READ
    }
    try:
        yield
    finally:
        os.environ.update(before)
