"""The ways in and out: options, enabling, sessions, processes, reports."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
import reprise
import skips
import torch
from reprise import _enabled, _native

PACKAGE_ROOT = pathlib.Path(reprise.__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _switched_off_afterwards() -> Iterator[None]:
    yield
    reprise.disable()


def some_ops(calls: int = 3) -> torch.Tensor:
    x = torch.ones(4, 4)
    for _ in range(calls):
        x = (x * 2).relu() - 1
    return x


def python(
    program: str, *args: str, check: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh interpreter that finds this package."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args],
        env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if check:
        assert result.returncode == 0, result.stderr
    return result


def test_an_unknown_option_is_named_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"'speed'.*policy"):
        reprise.enable("cpu", speed=11)
    assert _native.active() is None


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("policy", "sometimes", "auto, measured or always"),
        ("margin", 2, "a number from 0 to 1"),
        ("max_trace_ops", 1, "2 to 65536"),
        ("log", "loud", "debug"),
    ],
)
def test_a_bad_value_is_named_with_what_is_accepted(
    name: str, value: str | int, accepted: str
) -> None:
    with pytest.raises(ValueError, match=f"'{name}'.*'{value}'.*{accepted}"):
        reprise.enable("cpu", **{name: value})


def test_a_bad_device_is_named_with_what_is_accepted() -> None:
    with pytest.raises(ValueError, match=r"'device'.*'tpu'.*cpu"):
        reprise.enable("tpu")


def test_a_bad_variable_is_named() -> None:
    program = "import reprise; reprise.enable('cpu')"
    result = python(program, check=False, REPRISE_MARGIN="wide")
    assert "ValueError" in result.stderr
    assert "REPRISE_MARGIN" in result.stderr


def test_every_option_takes_its_default_and_python_values() -> None:
    for option in reprise.options():
        with reprise.session("cpu", **{option.name: option.default}):
            pass
    with reprise.session("cpu", margin=0.25, max_trace_ops=99, enabled=True):
        assert _native.active() is not None


def test_enabled_false_is_a_no_op() -> None:
    reprise.enable("cpu", enabled=False)
    assert _native.active() is None


def test_a_session_that_is_not_enabled_leaves_a_stretch_out() -> None:
    reprise.enable("cpu", margin=0.5)
    outer, seen = _native.active(), reprise.stats().ops
    with reprise.session("cpu", enabled=False) as session:
        some_ops()
    assert session.stats() == reprise.Stats()
    assert reprise.stats().ops == seen
    assert _native.active() == outer


def test_enabling_twice_is_harmless() -> None:
    reprise.enable("cpu", policy="always")
    some_ops()
    runtime, seen = _native.active(), reprise.stats().ops
    reprise.enable("cpu", policy="always")
    some_ops()
    assert _native.active() == runtime
    assert reprise.stats().ops > seen > 0


def test_coming_back_to_earlier_options_comes_back_to_their_plans() -> None:
    reprise.enable("cpu", margin=0.5)
    first = _native.active()
    reprise.enable("cpu", margin=0.125)
    assert _native.active() != first
    reprise.enable("cpu", margin=0.5)
    assert _native.active() == first


def test_disabled_sees_nothing() -> None:
    reprise.enable("cpu")
    some_ops()
    reprise.disable()
    seen = reprise.stats().ops
    assert torch.equal(some_ops(), some_ops())
    assert reprise.stats().ops == seen
    reprise.disable()


def test_a_session_restores_nothing() -> None:
    with reprise.session("cpu") as session:
        some_ops()
    assert _native.active() is None
    seen = session.stats().ops
    assert seen > 0
    some_ops()
    assert session.stats().ops == seen


def test_a_session_restores_what_was_enabled() -> None:
    reprise.enable("cpu", margin=0.5)
    outer = _native.active()
    with pytest.raises(KeyError), reprise.session("cpu", margin=0.125):
        assert _native.active() != outer
        raise KeyError
    assert _native.active() == outer


@pytest.mark.parametrize("enabled", [True, False])
def test_sessions_that_overlap_restore_what_was_enabled(enabled: bool) -> None:
    """As those of two threads or coroutines: the first to begin is the first to end."""
    reprise.enable("cpu", margin=0.5)
    outer = _native.active()
    first = reprise.session("cpu", margin=0.125)
    second = reprise.session("cpu", margin=0.25, enabled=enabled)
    first.__enter__()
    second.__enter__()
    within = _native.active()
    assert within != outer
    first.__exit__(None, None, None)
    assert _native.active() == within
    second.__exit__(None, None, None)
    assert _native.active() == outer


def test_what_is_enabled_in_a_session_ends_with_it() -> None:
    with reprise.session("cpu", margin=0.5):
        reprise.enable("cpu", margin=0.125)
        inner = _native.active()
        with reprise.session("cpu", enabled=False):
            assert _native.active() is None
        assert _native.active() == inner
    assert _native.active() is None


def test_what_is_enabled_while_a_region_runs_outlives_its_call() -> None:
    """Where nothing is enabled, a region's call is a brief block, which any thread meets."""
    with _enabled.block(lambda: _native.enable("cpu", {}), brief=True):
        reprise.enable("cpu", margin=0.5)
        outer = _native.active()
    assert _native.active() == outer
    with _enabled.block(lambda: _native.enable("cpu", {}), brief=True):
        reprise.disable()
    assert _native.active() is None


def test_a_session_that_cannot_begin_changes_nothing() -> None:
    reprise.enable("cpu", margin=0.5)
    outer = _native.active()
    with pytest.raises(ValueError), reprise.session("cpu", margin=5):
        pass
    assert _native.active() == outer


def test_a_session_counts_from_its_beginning() -> None:
    with reprise.session("cpu") as first:
        some_ops(10)
    with reprise.session("cpu") as second:
        some_ops(1)
    assert 0 < second.stats().ops < first.stats().ops


def test_stats_have_the_librarys_fields() -> None:
    reprise.enable("cpu")
    fields = [field.name for field in dataclasses.fields(reprise.Stats)]
    assert fields == list(torch.ops.reprise.stats(-1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        reprise.stats().ops = 1  # type: ignore[misc]


def test_reset_forgets() -> None:
    reprise.enable("cpu")
    some_ops()
    assert reprise.wait()
    reprise.reset()
    stats = reprise.stats()
    assert stats.ops == stats.traces == stats.plans == 0


def test_wait_keeps_to_its_timeout() -> None:
    reprise.enable("cpu")
    assert reprise.wait(0.0) is True  # for nothing
    reprise.enable("cpu", policy="always", build_delays=1)
    late = 0
    for size in range(8):
        x = torch.ones(size + 1)
        for _ in range(5):  # of the second and third one a plan is built
            (x * 2).relu().sum().item()
        late += reprise.wait(0.0) is False
        assert reprise.wait(60.0) is True
    assert late > 0
    assert reprise.stats().builds > 0
    ended, posted = _native._ops().builds(-1)
    assert ended == posted >= reprise.stats().builds


def test_a_timeout_that_is_no_number_of_seconds_is_named() -> None:
    for enabled in (False, True):
        if enabled:
            reprise.enable("cpu")
        for timeout in ("1", [], 1j):
            with pytest.raises(TypeError, match=r"timeout does not accept.*seconds"):
                reprise.wait(timeout)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="timeout does not accept nan"):
            reprise.wait(float("nan"))


def test_counters_are_compared_with_counters_only() -> None:
    with pytest.raises(TypeError, match=r"since\(\) does not accept 3: give what"):
        reprise.stats().since(3)  # type: ignore[arg-type]


def test_explain_is_for_people_and_for_programs() -> None:
    reprise.enable("cpu", policy="always")
    for _ in range(12):
        some_ops()
        some_ops().sum().item()
        reprise.wait()
    report = reprise.explain()
    fields = report.to_dict()
    assert fields["mode"] == "host"
    for name in ("plans", "cuts", "rejections", "squashes", "notes"):
        assert isinstance(fields[name], list)
    assert any(cut["op"].startswith("aten::") for cut in fields["cuts"])
    assert "host executor" in str(report)
    assert all(cut["reason"] in str(report) for cut in fields["cuts"])
    fields.clear()
    assert report.to_dict()


def test_long_notes_are_cut_short_for_people_only() -> None:
    notes = [f"note {number} " + "of many words " * 40 for number in range(9)]
    plan = {
        "signature": "ab" * 16,
        "state": "ready",
        "ops": 4,
        "launches": 4,
        "segments": 1,
        "arena_bytes": 512,
        "replays": 1,
        "squashes": 0,
        "mechanism": "graph",
        "notes": notes,
    }
    report = reprise.Report({"mode": "cuda", "plans": [plan]})
    text = str(report)
    assert "note 2 of many words" in text
    assert "note 3" not in text
    assert "6 more notes in to_dict()" in text
    assert all(len(line) <= 180 for line in text.splitlines())
    assert report.to_dict()["plans"][0]["notes"] == notes


def test_a_report_of_everything_reads_well() -> None:
    text = str(
        reprise.Report(
            {
                "mode": "cuda",
                "plans": [
                    {
                        "signature": "00112233445566778899aabbccddeeff",
                        "state": "ready",
                        "ops": 41,
                        "launches": 80,
                        "segments": 1,
                        "arena_bytes": 3 << 20,
                        "instances": [
                            {"shares_arena": False, "replays": 8, "validations": 2},
                            {"shares_arena": True, "replays": 4, "validations": 2},
                        ],
                        "replays": 12,
                        "squashes": 1,
                        "eager_us": 500.0,
                        "replay_us": 200.0,
                        "mechanism": "graph",
                        "operators": ["aten::addmm"] * 20 + ["aten::relu"] * 21,
                        "notes": ["a note of the plan"],
                        "reason": "",
                    },
                    {
                        "signature": "ee" * 16,
                        "state": "given up",
                        "ops": 3,
                        "launches": 0,
                        "mechanism": "",
                        "reason": "differs",
                    },
                ],
                "cuts": [
                    {"op": "aten::item", "reason": "gives data to the host", "count": 7}
                ],
                "rejections": [
                    {"signature": "ff" * 16, "reason": "differs at op 3", "count": 1}
                ],
                "squashes": [
                    {
                        "signature": "00" * 16,
                        "op": 5,
                        "expected": "aten::relu",
                        "found": "aten::gelu",
                        "count": 2,
                    }
                ],
                "notes": ["a note of the report"],
            }
        )
    )
    for part in (
        "reprise on CUDA: 1 plan, 12 replays",
        "trace eeeeeeee given up: 3 ops, differs",
        "plan 00112233 ready: 41 ops, 80 launches in 1 segment, 3.0 MiB beside an arena that it "
        "shares, by graph",
        "12 replays, 1 squash; eager 500.0 us, replay 200.0 us (2.50x)",
        "2 instances, replayed 8, 4 times",
        "aten::relu x21, aten::addmm x20",
        "note: a note of the plan",
        "7 x aten::item: gives data to the host",
        "1 x ffffffff: differs at op 3",
        "2 x 00000000 at op 5: expected aten::relu, found aten::gelu",
        "note: a note of the report",
    ):
        assert part in text


def test_nothing_is_loaded_before_the_first_enable() -> None:
    python(
        """
        import torch, reprise
        assert reprise.stats() == reprise.Stats()
        assert str(reprise.explain()) == "reprise has not been enabled"
        assert reprise.wait(0)
        reprise.disable(); reprise.reset()
        assert not torch.ops.loaded_libraries
        """
    )


def test_the_variable_switches_everything_off() -> None:
    python(
        """
        import torch, reprise
        reprise.enable("cpu", no_such_option=1)
        with reprise.session("cpu") as session:
            (torch.ones(3) * 2).sum().item()
        assert session.stats() == reprise.stats() == reprise.Stats()
        assert str(session.explain()).startswith("reprise is switched off: REPRISE=0")
        assert not torch.ops.loaded_libraries
        """,
        REPRISE="0",
    )


def test_what_registers_no_kernel_in_the_first_region_of_a_process() -> None:
    """Kernels were last looked at with torch's warnings switched on, for nobody."""
    result = python(
        """
        import sys, torch, reprise
        def fn(x):
            if "marker" not in sys.modules:
                sys.modules["marker"] = sys
                torch.library.Library("reprise_marker", "DEF")
            return x * 2
        fast = reprise.region(fn)
        for _ in range(8):
            fast(torch.ones(3))
        assert fast.explain().replayed > 0
        print(fast.explain())
        """
    )
    assert "are registered" not in result.stdout, result.stdout


def test_a_missing_library_is_named() -> None:
    program = "import reprise; reprise.enable('cpu')"
    result = python(program, check=False, REPRISE_LIBRARY="/nowhere/at/all")
    assert "/nowhere/at/all" in result.stderr.splitlines()[-1]


@pytest.mark.skipif(skips.gpus() > 0, reason=skips.A_GPU)
def test_a_missing_gpu_is_one_sentence() -> None:
    with pytest.raises(RuntimeError, match="no CUDA device") as raised:
        reprise.enable("cuda")
    assert "\n" not in str(raised.value)
    assert _native.active() is None


@pytest.mark.skipif(skips.gpus() > 0, reason=skips.A_GPU)
def test_the_best_device_without_a_gpu_is_the_host_and_says_so_once() -> None:
    result = python(
        """
        import torch, reprise
        reprise.enable()
        reprise.disable()
        with reprise.session():
            torch.ones(3) * 2
        assert reprise.stats().ops > 0
        """
    )
    assert result.stderr.count("correctness and not speed") == 1


@pytest.mark.parametrize(
    "way_in",
    [
        "reprise.enable('cpu')",
        "with reprise.session('cpu'): pass",
        "contextlib.ExitStack().enter_context(reprise.session('cpu'))",
    ],
)
def test_the_hosts_warning_names_the_programs_line(way_in: str) -> None:
    result = python(f"import contextlib, reprise\n{way_in}")
    assert result.stderr.startswith("<string>:2: UserWarning: reprise: on the CPU")


def test_where_warnings_are_errors_nothing_is_left_enabled() -> None:
    python(
        """
        import contextlib, warnings, torch, reprise
        warnings.simplefilter("error")
        for way_in in (lambda: reprise.enable("cpu"), reprise.session("cpu").__enter__):
            try:
                way_in()
            except UserWarning:
                pass
            else:
                raise AssertionError("no error")
            torch.ones(3) * 2
            assert reprise.stats().ops == 0
        warnings.simplefilter("ignore")
        with reprise.session("cpu") as session:
            torch.ones(3) * 2
        assert session.stats().ops > 0
        """
    )


def test_a_forked_child_is_left_alone() -> None:
    python(
        """
        import os, sys, torch, reprise
        torch.set_num_threads(1)
        def step():
            return ((torch.arange(16.) * 2).relu() - 1).tolist()
        reprise.enable("cpu", policy="always")
        for _ in range(12):
            expected = step()
            reprise.wait()
        assert reprise.stats().replays > 0, reprise.explain()
        child = os.fork()
        if child == 0:
            ok = step() == expected and reprise.stats() == reprise.Stats()
            reprise.enable("cpu")
            ok = ok and step() == expected and reprise.stats() == reprise.Stats()
            sys.exit(0 if ok else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        before = reprise.stats().ops
        assert step() == expected
        assert reprise.stats().ops > before
        """
    )


@pytest.mark.parametrize("calls", [1, 3, 6, 12])
def test_leaving_with_work_queued(calls: int) -> None:
    """Whatever is open when the interpreter goes, it goes quietly."""
    result = python(
        """
        import sys, warnings
        warnings.simplefilter("ignore")
        import torch, reprise
        model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(30)])
        reprise.enable("cpu", policy="always")
        with torch.no_grad():
            for _ in range(int(sys.argv[1])):
                kept = model(torch.randn(2, 64))
            half = model[:15](torch.randn(2, 64))
        """,
        str(calls),
    )
    assert result.stderr == ""


def test_a_script_under_the_runner(tmp_path: pathlib.Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'neighbour'\n")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, torch, reprise, beside
            torch.ones(3) * 2
            print(__name__, sys.argv[1:], beside.WORD, reprise.stats().ops > 0)
            """
        )
    )
    run = [sys.executable, "-m", "reprise", "run", "--device", "cpu", "--explain"]
    result = subprocess.run(
        [*run, str(script), "-x", "y"],
        env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert result.stdout == "__main__ ['-x', 'y'] neighbour True\n"
    assert "reprise on" in result.stderr


def test_options_are_given_on_the_command_line(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch, reprise
            for _ in range(20):
                torch.ones(3).mul(2).add(1).sum().item()
                reprise.wait()
            print(reprise.stats().replays > 0)
            """
        )
    )
    env = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
    for given, replays in (
        (["--policy", "always"], True),
        (["-o", "policy=always", "-o", "max_arena_bytes=1"], False),
        (["-o", "enabled=0"], False),
    ):
        run = [sys.executable, "-m", "reprise", "run", "--device", "cpu", *given]
        result = subprocess.run(
            [*run, str(script)],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        assert result.stdout == f"{replays}\n", given


def test_what_happens_is_logged_as_it_does(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch, reprise
            for i in range(20):
                h = torch.ones(3).mul(2)
                (torch.tanh(h) if i == 18 else h).add(1).sum().item()
                reprise.wait()
            """
        )
    )
    env = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), "PYTHONWARNINGS": "ignore"}
    run = [sys.executable, "-m", "reprise", "run", "--device", "cpu", str(script)]
    info = ("built:", "it may be replayed from now on")
    debug = ("recorded", "recorded again", "cut: aten::_local_scalar_dense", "squash")
    for level, expected, absent in (
        ("warning", (), (*info, *debug)),
        ("info", info, debug),
        ("debug", (*info, *debug), ()),
    ):
        said = subprocess.run(
            run,
            env={**env, "REPRISE_LOG": level},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stderr
        assert all(text in said for text in expected), said
        assert not any(text in said for text in absent), said


def test_the_command_says_its_version() -> None:
    env = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
    command = [sys.executable, "-m", "reprise", "--version"]
    result = subprocess.run(command, env=env, capture_output=True, text=True)
    assert result.stdout == f"reprise {reprise.__version__}\n"


def test_a_variable_of_no_option_is_named_once(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import reprise; reprise.enable('cpu'); reprise.enable('cpu')\n")
    env = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), "REPRISE_POLCY": "always"}
    result = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("REPRISE_POLCY") == 1
    assert "REPRISE_POLICY" in result.stderr


def test_a_script_that_fails_fails_under_the_runner(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(7)\n")
    run = [sys.executable, "-m", "reprise", "run", "--device", "cpu", str(script)]
    env = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
    assert subprocess.run(run, env=env, timeout=300).returncode == 7


def test_what_the_runner_cannot_do_is_one_sentence(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise AssertionError\n")
    env = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
    for given, variables, sentence in (
        (["nowhere.py"], {}, "reprise: there is no script 'nowhere.py'"),
        ([str(script)], {"REPRISE_MARGIN": "wide"}, "reprise: REPRISE_MARGIN: option"),
        (
            ["--policy", "best", str(script)],
            {},
            "reprise: option 'policy' does not accept 'best'",
        ),
        (["-o", "speed=9", str(script)], {}, "reprise: there is no option 'speed'"),
        (["-o", "margin", str(script)], {}, "reprise: --option does not accept"),
    ):
        result = subprocess.run(
            [sys.executable, "-m", "reprise", "run", "--device", "cpu", *given],
            env={**env, **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 1
        assert result.stderr.startswith(sentence)
        assert result.stderr.count("\n") == 1


def test_profilers_see_the_programs_ops() -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with reprise.session("cpu", policy="always"):
        some_ops()
        with torch.profiler.profile(activities=activities) as profile:
            some_ops()
        assert any(event.key == "aten::mul" for event in profile.key_averages())


def test_replays_go_on_under_a_profiler_and_recording_after_it() -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    known, unknown = torch.randn(8, 8), torch.randn(8, 8)

    def step(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return ((x @ weight).relu() + weight).tanh().sum()

    def steps(weight: torch.Tensor, calls: int = 12) -> float:
        for _ in range(calls):
            total = step(weight, weight).item()
            assert session.wait(120)
        return total

    with reprise.session("cpu", policy="always") as session:
        session.reset()
        steps(known)
        before = session.stats()
        assert before.replays > 0
        with torch.profiler.profile(activities=activities) as profile:
            steps(known)
            during = session.stats().since(before)
            steps(unknown[:5, :5])
            recorded = session.stats().recorded
        after = session.stats()
        steps(unknown[:5, :5])
        later = session.stats().since(after)
    assert during.replays == 12
    assert recorded == before.recorded
    assert later.recorded == 2
    assert later.replays > 0
    assert any(event.key == "aten::tanh" for event in profile.key_averages())


def test_compiled_functions_and_fake_tensors_are_left_alone() -> None:
    with reprise.session("cpu", policy="always"):
        compiled = torch.compile(some_ops, backend="aot_eager")
        with torch._subclasses.FakeTensorMode():
            fake = some_ops()
        found = [compiled() for _ in range(8)]
        mapped = [torch.vmap(lambda row: (row * 2).sum())(torch.ones(3, 4))]
    assert fake.shape == (4, 4)
    expected = some_ops()
    assert all(torch.equal(value, expected) for value in found)
    assert torch.equal(mapped[0], torch.full((3,), 8.0))


def test_torch_may_be_installed_anywhere(tmp_path: pathlib.Path) -> None:
    """Who builds torch has it in a checkout: it is no code of the program's there."""
    (tmp_path / "torch").symlink_to(pathlib.Path(torch.__file__).parent)
    result = python(
        """
        import sys
        import torch, reprise
        assert torch.__file__.startswith(sys.argv[1]), torch.__file__
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss

        fast = reprise.region(step)
        for _ in range(40):
            fast(torch.ones(4, 8))
            reprise.wait()
        print(fast.explain().replayed > 0 or fast.explain())
        print(sys.argv[1] in str(fast.explain()))
        """,
        str(tmp_path),
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(PACKAGE_ROOT)]),
    )
    assert result.stdout == "True\nFalse\n", result.stdout
