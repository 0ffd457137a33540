"""Runs all tests that need a GPU, and keeps one JUnit record of them.

    python perf/gpu_tests.py BUNDLE OUT.xml [--commit ID] [--jobs 6] [--only WORD...]

BUNDLE is what `scripts/gpu_bundle.sh` has made: the machine with the GPU needs this
checkout, that folder and a Python with torch and pytest, no compiler. Each C++ program
and each file of Python tests is a process of its own; some run at once. The commit is
that of the checkout unless it is given, here or in REPRISE_COMMIT, as it must be where
there is no repository.

The exit status is 1, and the record says why, where a test failed, a process ended
before its tests did, a test was skipped for a reason that does not hold there, or there
is no GPU.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable

import progress
import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "python"
TIMEOUT_S = 540.0
MOST_TOLD = 3000  # characters of a failure
ALONE = ("test_out_of_memory",)  # they fill the device
NO_TESTS = 5  # pytest's exit status where it finds none

# C++ tests that need more than one GPU; any other is skipped nowhere with a GPU.
GPUS_NEEDED = {"GpuMemoryPoolTest.DevicesSideBySide": 2}


@dataclasses.dataclass
class Machine:
    """Where this runs, as the record says it."""

    gpus: list[str]
    driver: str

    @staticmethod
    def here() -> Machine:
        # Those that tests are shown (CUDA_VISIBLE_DEVICES).
        gpus = [
            torch.cuda.get_device_name(index)
            for index in range(torch.cuda.device_count())
        ]
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            said = subprocess.run(
                query, capture_output=True, text=True, check=True
            ).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            said = []
        return Machine(gpus, said[0] if said else "none")


def commit_of(given: str | None) -> str:
    if found := given or os.environ.get("REPRISE_COMMIT"):
        return found
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit("no repository here: give the commit by --commit or REPRISE_COMMIT")


def environment(bundle: pathlib.Path, scratch: str) -> dict[str, str]:
    """Programs find torch's libraries and CUDA's beside them, the package the bundle's."""
    lib = pathlib.Path(torch.__file__).resolve().parent / "lib"
    paths = [lib, *sorted(lib.parents[1].glob("nvidia/*/lib"))]
    packages = [ROOT / "bindings" / "python"]
    return {
        # The whole sweeps are runs of their own.
        "REGISTRY_SHARDS": "16",
        "DATABASES_SHARD": "1/8",
        **os.environ,
        "LD_LIBRARY_PATH": _joined(paths, "LD_LIBRARY_PATH"),
        "PYTHONPATH": _joined(packages, "PYTHONPATH"),
        "REPRISE_LIBRARY": str(bundle),
        "REPRISE_CACHE_DIR": scratch,
    }


def _joined(paths: list[pathlib.Path], name: str) -> str:
    return os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get(name)])])


def run(
    name: str, command: list[str], report: pathlib.Path, variables: dict[str, str]
) -> list[ET.Element]:
    """The test suites of one process; one that ended otherwise is an error in them."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
        )
        status, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        status, said = None, error.stdout or b""
    suites = list(ET.parse(report).getroot()) if report.exists() else []
    suites = [suite for suite in suites if len(suite)]
    expected = int(any(map(failed, cases(suites)))) if suites else NO_TESTS
    if status != expected:
        how = "did not end in time" if status is None else f"ended with status {status}"
        suite = ET.Element("testsuite", name=name, tests="1", failures="0", errors="1")
        case = ET.SubElement(suite, "testcase", name="the process", classname=name)
        ET.SubElement(case, "error", message=how).text = said[-8000:].decode(
            errors="replace"
        )
        suites.append(suite)
    for suite in suites:
        suite.attrib.pop("hostname", None)
        if suite.get("name") == "pytest":
            suite.set("name", name)
    print(f"{time.monotonic() - began:6.1f} s  {name}: {tally(suites)}", flush=True)
    tell_failures(suites)
    return suites


def tell_failures(suites: list[ET.Element]) -> None:
    """Print why tests failed, at once: a run that is ended early keeps no record."""
    for case in filter(failed, cases(suites)):
        why = why_failed(case)
        text = why.get("message", "") + "\n" + (why.text or "")[-MOST_TOLD:]
        print(f"FAILED {name_of(case)}: {text.strip()[:MOST_TOLD]}", flush=True)


def cases(suites: list[ET.Element]) -> list[ET.Element]:
    return [case for suite in suites for case in suite.iter("testcase")]


def failed(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def why_failed(case: ET.Element) -> ET.Element:
    return next(child for child in case if child.tag in ("failure", "error"))


def name_of(case: ET.Element) -> str:
    return f"{case.get('classname')}.{case.get('name')}"


def tally(suites: list[ET.Element]) -> str:
    """For people: how many, and why some were not run."""
    every = cases(suites)
    skips = collections.Counter(
        reason(skip) for case in every for skip in case.findall("skipped")
    )
    text = f"{len(every)} tests, {sum(map(failed, every))} failed"
    text += f", {skips.total()} skipped"
    return text + "".join(f"; {count} x {why}" for why, count in skips.items())


def reason(skip: ET.Element) -> str:
    """A skip's, without the line that GoogleTest writes before it."""
    return skip.get("message", "").strip().split("\n")[-1]


def refuse_skips(suites: list[ET.Element], gpus: int) -> None:
    """A test that was skipped though it has all that it needs has failed.

    Reasons of Python's own are looked at in its processes (tests/python/conftest.py).
    """
    for suite in suites:
        for case in suite.iter("testcase"):
            skip = case.find("skipped")
            if skip is None:
                continue
            if skip.get("type") == "pytest.skip":
                refused = reason(skip) == "no GPU"
            else:
                refused = gpus >= GPUS_NEEDED.get(name_of(case), 1)
            if refused:
                case.remove(skip)
                ET.SubElement(case, "failure", message=f"skipped: {reason(skip)}")
                for field, change in (("skipped", -1), ("failures", 1)):
                    suite.set(field, str(int(suite.get(field, "0")) + change))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--commit")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="one is in each name"
    )
    given = parser.parse_args()
    bundle = given.bundle.resolve()
    machine, commit = Machine.here(), commit_of(given.commit)

    def wanted(paths: Iterable[pathlib.Path]) -> list[pathlib.Path]:
        return sorted(p for p in paths if any(word in p.name for word in given.only))

    programs = wanted(bundle.glob("*_test"))
    files = wanted(TESTS.glob("test_*.py"))
    if not any(bundle.glob("*_test")):
        sys.exit(f"no test program in {bundle}: scripts/gpu_bundle.sh puts them there")

    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        variables = environment(bundle, str(scratch / "cache"))
        native: dict[str, list[ET.Element]] = {}
        ours: dict[str, list[ET.Element]] = {}

        def program(path: pathlib.Path) -> None:
            report = scratch / f"{path.name}.xml"
            command = [str(path), f"--gtest_output=xml:{report}"]
            native[path.name] = run(path.name, command, report, variables)

        def file(path: pathlib.Path) -> None:
            report = scratch / f"{path.stem}.xml"
            command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", str(path)]
            command += [f"--junitxml={report}", "-pno:cacheprovider"]
            ours[path.stem] = run(path.stem, command, report, variables)

        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            works = [pool.submit(program, path) for path in programs]
            works += [pool.submit(file, p) for p in files if p.stem not in ALONE]
            for ended, work in enumerate(concurrent.futures.as_completed(works), 1):
                progress.say(f"{ended} of {len(works)} processes have ended")
                work.result()
        for path in files:
            if path.stem in ALONE:
                progress.say(f"{path.stem}, alone")
                file(path)
        progress.clear()

    suites = [
        suite for by in (native, ours) for name in sorted(by) for suite in by[name]
    ]
    if machine.gpus:
        refuse_skips(suites, len(machine.gpus))
    every = cases(suites)
    bad = [case for case in every if failed(case)]
    record = ET.Element(
        "testsuites",
        name="GPU tests, each file in a process of its own",
        tests=str(len(every)),
        failures=str(len(bad)),
        skipped=str(sum(case.find("skipped") is not None for case in every)),
        gpu=machine.gpus[0] if machine.gpus else "none",
        gpus=str(len(machine.gpus)),
        driver=machine.driver,
        torch=torch.__version__,
        commit=commit,
        command=shlex.join(["python", *sys.argv]),
    )
    record.extend(suites)
    for told in record.iter():  # paths as they are in any checkout
        told.text = told.text and told.text.replace(f"{ROOT}/", "")
    ET.indent(record)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(record).write(given.out, encoding="utf-8", xml_declaration=True)
    for case in bad:
        print(f"FAILED {name_of(case)}: {why_failed(case).get('message', '')[:300]}")
    where = f"{len(machine.gpus)} x {machine.gpus[0]}" if machine.gpus else "no GPU"
    print(f"{commit}, {where}: {tally(suites)}")
    return 0 if machine.gpus and every and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
