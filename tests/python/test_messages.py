"""What a user reads where something is wrong, or not as it was meant.

Each message says what was found and what can be done about it.
"""

from __future__ import annotations

import functools
import json
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import fresh
import pytest
import reprise
import skips
import torch
from reprise import _advice, _region_functions, _words
from torch import nn

PASSES = 12


@pytest.fixture(autouse=True)
def _switched_off_afterwards() -> Iterator[None]:
    yield
    reprise.disable()


# --- A library that cannot be had ---------------------------------------------------

WAYS_IN = {
    "a region": "f = reprise.region(lambda x: x * 2)",
    "a region of a module": "f = reprise.region(torch.nn.Hardtanh(-9, 2))",
    "a compiled function": "f = torch.compile(lambda x: x * 2, backend=reprise.backend)",
    "a compiled module": (
        "m = torch.nn.Linear(3, 3); torch.nn.init.ones_(m.weight);"
        "torch.nn.init.zeros_(m.bias); m.requires_grad_(False);"
        "f = torch.compile(m, backend=reprise.backend)"
    ),
}


@pytest.mark.parametrize("way_in", WAYS_IN.values(), ids=WAYS_IN)
@pytest.mark.parametrize("wrong", ["no library", "another torch", "no such library"])
def test_without_a_library_a_callable_runs_and_one_warning_says_why(
    tmp_path: pathlib.Path, wrong: str, way_in: str
) -> None:
    if wrong == "another torch":
        (tmp_path / "libreprise_torch_17.so").touch()
    elif wrong == "no such library":
        minor = "".join(torch.__version__.split(".")[:2])
        (tmp_path / f"libreprise_torch_{minor}.so").write_text("text\n" * 1000)
    result = fresh.program(
        f"""
        import torch, reprise
        {way_in}
        for _ in range(5):
            y = f(torch.ones(2, 3))
        print(y.sum().item(), torch.ops.loaded_libraries)
        """,
        REPRISE_LIBRARY=str(tmp_path),
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[0] in ("6.0", "12.0", "18.0")
    (told,) = [line for line in result.stderr.splitlines() if "UserWarning" in line]
    assert "<string>:5: UserWarning: reprise: regions run their Python" in told
    said = {
        "no library": "there is one for torch: none). Unset REPRISE_LIBRARY",
        "another torch": "there is one for torch: 1.7). Run `pip install 'torch==1.7.*'",
        "no such library": "invalid ELF header. Install Reprise anew",
    }
    assert said[wrong] in told


def test_a_region_that_cannot_be_replayed_says_so(tmp_path: pathlib.Path) -> None:
    result = fresh.program(
        """
        import warnings; warnings.simplefilter("ignore")
        import torch, reprise
        f = reprise.region(lambda x: x * 2)
        f(torch.ones(3))
        print(f.explain())
        """,
        REPRISE_LIBRARY=str(tmp_path),
    )
    assert "nothing can be replayed: reprise has no library" in result.stdout


def test_enable_raises_what_it_promises(tmp_path: pathlib.Path) -> None:
    minor = "".join(torch.__version__.split(".")[:2])
    library = tmp_path / f"libreprise_torch_{minor}.so"
    library.touch()
    result = fresh.program(
        """
        import reprise
        try:
            reprise.enable("cpu")
        except RuntimeError as error:
            print(error)
        """,
        REPRISE_LIBRARY=str(tmp_path),
    )
    assert result.stdout.startswith(f"reprise cannot load {library}: file too short.")


def test_commands_without_a_library_say_one_sentence(tmp_path: pathlib.Path) -> None:
    for command in (["options"], ["run", __file__]):
        result = fresh.python(
            "-m", "reprise", *command, REPRISE_LIBRARY=str(tmp_path / "none")
        )
        assert result.returncode == 1
        assert result.stderr.startswith("reprise has no library for torch")
        assert result.stderr.count("\n") == 1


def test_a_region_with_a_refused_variable_runs_its_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU a region enables Reprise for its calls: its variables are read then."""
    monkeypatch.setenv("REPRISE_MARGIN", "wide")
    fast: Any = reprise.region(lambda x: x * 2)
    _region_functions.warn_once.cache_clear()
    with (
        pytest.warns(UserWarning, match="REPRISE_MARGIN: option"),
        fast._session.block(),
    ):
        pass
    assert torch.equal(fast(torch.ones(3)), torch.full((3,), 2.0))
    assert "REPRISE_MARGIN: option 'margin' does not" in str(fast.explain())


# --- The switch ---------------------------------------------------------------------

PROGRAM = """
    import warnings; warnings.simplefilter("ignore")
    import torch, reprise
    reprise.enable("cpu")
    torch.ones(3) * 2
    f = torch.compile(lambda x: x * 2, backend=reprise.backend)
    f(torch.ones(3))
    print(reprise.stats().ops > 0, bool(torch.ops.loaded_libraries))
    print(reprise.explain())
    """


@pytest.mark.parametrize("value", ["0", "off", "OFF", "false", "no"])
def test_words_that_switch_everything_off(value: str) -> None:
    result = fresh.program(PROGRAM, REPRISE=value)
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first == "False False"
    assert second == "reprise is switched off: REPRISE=0 is in the environment"


@pytest.mark.parametrize("value", ["1", "on", "True", "yes", ""])
def test_words_that_do_not(value: str) -> None:
    result = fresh.program(PROGRAM, REPRISE=value)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("True True\n")


def test_another_word_is_named_with_what_is_accepted() -> None:
    result = fresh.program(PROGRAM, REPRISE="perhaps")
    assert "'perhaps': give 0 or 1" in result.stderr.splitlines()[-1]


# --- Options and devices ------------------------------------------------------------


def test_an_option_that_is_misspelt_proposes_the_one_that_was_meant() -> None:
    for name, meant in (
        ("polcy", "policy"),
        ("max_trace_op", "max_trace_ops"),
        ("Policy", "policy"),
        ("plan_budget", "plan_budget_bytes"),
    ):
        with pytest.raises(ValueError, match=f"'{name}': did you mean '{meant}'"):
            reprise.enable("cpu", **{name: 1})
    with pytest.raises(ValueError, match=r"'xyz': the options are enabled, policy"):
        reprise.enable("cpu", xyz=1)


@pytest.mark.parametrize("device", ["cpu:0", torch.device("cpu", 0)])
def test_the_host_may_have_an_index(device: Any) -> None:
    reprise.enable(device)
    torch.ones(3) * 2
    assert reprise.stats().ops > 0


@pytest.mark.parametrize("device", [0, "cuda:0", torch.device("cuda", 0)])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_one_gpu_may_be_named(
    monkeypatch: pytest.MonkeyPatch, count: int, device: Any
) -> None:
    """Whatever GPUs there are here: the only one and one of several."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if skips.gpus() == 0:
        with pytest.raises(RuntimeError, match="no CUDA device"):
            reprise.enable(device)
    else:
        reprise.enable(device)


def test_a_gpu_that_there_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for device in (3, "cuda:3"):
        with pytest.raises(ValueError, match=r"3'? where torch finds 1 GPU: give"):
            reprise.enable(device)
    for nothing in (True, 1.5, "cuda:first"):
        with pytest.raises(ValueError, match="'device' does not accept"):
            reprise.enable(nothing)  # type: ignore[arg-type]


# --- Reports ------------------------------------------------------------------------


def call(fn: Any, *args: Any) -> None:
    for _ in range(PASSES):
        fn(*args)


def test_a_report_of_regions_alone_says_what_they_replayed() -> None:
    result = fresh.program(
        """
        import torch, reprise
        fast = reprise.region(lambda x: x * 2)
        unused = reprise.region(lambda x: x)
        model = torch.nn.Linear(3, 3)
        compiled = torch.compile(model, backend=reprise.backend)
        for _ in range(9):
            fast(torch.ones(3))
            compiled(torch.ones(3))
        report = reprise.explain()
        print(report)
        import json; print(json.dumps(report.to_dict()))
        """
    )
    assert result.returncode == 0, result.stderr
    text, _, fields = result.stdout.rstrip().rpartition("\n")
    regions = json.loads(fields)["regions"]
    replayed = sum(region["replayed"] for region in regions)
    assert replayed > 0
    if skips.gpus() == 0:  # with one, they have a runtime
        assert text.startswith(f"{replayed} of 18 calls of 2 regions were replayed")
    assert "has not been enabled" not in text


class Net(nn.Module):
    """Whose name a report of its compiled calls has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu()


def test_a_compiled_model_has_its_name() -> None:
    torch.compiler.reset()

    def step(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x.cos() + 1
        torch._dynamo.graph_break()
        return x.sin() * 2

    net, layers = Net(), nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    for each in (net, layers, step, broken):
        call(torch.compile(each, backend=reprise.backend), torch.ones(2, 3))
    names = [
        region["name"]
        for region in reprise.explain().to_dict()["regions"]
        if region["name"].startswith("torch.compile(")
    ]
    for name in ("forward", "Sequential", "step", "broken from line "):
        assert any(name in each for each in names), names
    assert not any("_with_static" in str(each) for each in reprise.explain()._regions)
    torch.compiler.reset()


def test_a_region_of_a_part_of_a_function_has_the_functions_name() -> None:
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    fast: Any = reprise.region(functools.partial(functools.partial(scaled), by=2.0))
    assert fast.explain().name.endswith("<locals>.scaled")


@pytest.mark.parametrize("fused", [False, True])
def test_an_optimizer_that_reads_its_step_is_told_of(fused: bool) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.NAdam(model.parameters())
    if fused:
        optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    fast: Any = reprise.region(step)
    with reprise.session("cpu") as session:
        session.reset()
        call(step, torch.ones(2, 4))
        report = session.explain()
    call(fast, torch.ones(2, 4))
    for text in (str(report), str(fast.explain())):
        assert ("capturable=True" in text) == (not fused), text
        assert "keep the number on the device" not in text


def test_an_optimizer_that_cannot_be_fused_is_named() -> None:
    optimizer = torch.optim.Rprop([torch.ones(3)], lr=0.1)
    optimizer.defaults.pop("capturable", None)
    assert _advice.for_optimizers([optimizer]).startswith("Rprop reads numbers")
    adam = torch.optim.Adam([torch.ones(3)])
    assert "fused=True" in _advice.for_optimizers([adam])


@pytest.mark.parametrize(
    ("make", "helps"),
    [
        (
            lambda p: torch.optim.NAdam(p),
            "on a GPU make it with capturable=True, or call",
        ),
        (lambda p: torch.optim.ASGD(p), "make it with foreach=True"),
        (lambda p: torch.optim.Adafactor(p), "call it outside of the region"),
        (
            lambda p: torch.optim.SGD(p, torch.tensor(0.1)),
            "learning rate a float, or make",
        ),
        (lambda p: torch.optim.SGD(p, torch.tensor(0.1), fused=True), ""),
    ],
)
def test_what_helps_where_an_optimizer_reads_numbers(make: Any, helps: str) -> None:
    """What takes no `fused` is not told to take it."""
    optimizer = make([torch.ones(3, 3, requires_grad=True)])
    told = _advice.for_optimizers([optimizer])
    assert helps in told
    assert bool(told) == bool(helps)
    assert ("fused=True" in told) <= ("fused" in optimizer.defaults)


@pytest.mark.parametrize("name", ["LBFGS", "SparseAdam"])
def test_an_optimizer_that_keeps_numbers_is_told_of(name: str) -> None:
    optimizer = getattr(torch.optim, name)([torch.ones(3)])
    changed = f"{name}.state.[Parameter].step"
    assert "outside of the region" in _advice.for_changed(changed, [optimizer])
    assert not _advice.for_changed("Adam.state.[Parameter].step", [optimizer])


def test_only_an_optimizers_step_is_taken_for_one(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "train.py"
    lines = {
        "optimizer.step()": True,
        "self.optim[0].step(closure)": True,
        "scaler.step(optimizer)": True,
        "opt_g.step()": True,
        "state, reward = env.step(action)": False,
        "loss.item()": False,
    }
    source.write_text("\n".join(lines))
    for number, is_step in enumerate(lines.values(), 1):
        assert _advice.is_optimizers_step(f"{source}:{number}") == is_step
    for nowhere in ("", "train.py", f"{source}:99", "<string>:1"):
        assert not _advice.is_optimizers_step(nowhere)


class Own(torch.optim.SGD):
    """Has an attribute of the program's own."""

    _calls = 0

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._calls += 1
        super().zero_grad(set_to_none)


@pytest.mark.parametrize(
    ("kind", "told"),
    [(torch.optim.SGD, "what torch keeps in SGD for itself"), (Own, "Own._calls")],
)
def test_what_torch_keeps_for_itself_is_not_named(kind: Any, told: str) -> None:
    model = nn.Linear(4, 4)
    optimizer = kind(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    fast: Any = reprise.region(step)
    for _ in range(PASSES):
        fast(torch.ones(2, 4))
        scheduler.step()
    text = str(fast.explain())
    assert "_opt_called" not in text
    assert told in text


def test_what_has_changed_is_a_sentence() -> None:
    values: dict[str, list[float]] = {"scale": [1.0]}

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * values["scale"][0]

    fast: Any = reprise.region(fn)
    for number in range(3):
        values["scale"][0] = float(number)
        call(fast, torch.ones(3))
    text = str(fast.explain())
    assert "2 x changed since the call before: " in text, text
    assert " x another" not in text


def test_one_of_a_thing_is_not_several() -> None:
    fast: Any = reprise.region(lambda x: x * 2)
    call(fast, torch.ones(3))
    text = str(fast.explain())
    assert "1 operator a call, 1 variant, 0 samples the same" in text
    plan = {
        **{"signature": "ab" * 16, "state": "ready", "ops": 1, "launches": 1},
        **{"segments": 1, "arena_bytes": 512, "replays": 1, "squashes": 1},
        "mechanism": "graph",
    }
    text = str(reprise.Report({"mode": "cuda", "plans": [plan]}))
    assert "1 op, 1 launch in 1 segment" in text
    assert [_words.plural(n, "pass") for n in (1, 2)] == ["1 pass", "2 passes"]


def test_a_note_that_many_streams_have_is_told_once() -> None:
    notes = ["nothing is recorded", "another note", *["nothing is recorded"] * 112]
    text = str(reprise.Report({"mode": "cuda", "notes": notes}))
    assert text.count("nothing is recorded") == 1
    assert "note: nothing is recorded (113 times)" in text
    assert "note: another note" in text.splitlines()


def test_long_lines_are_folded_where_a_sentence_is_best_broken() -> None:
    place = "/home/somebody/with/a/long/name/projects/training/train.py:1042"
    cut = {
        "op": "aten::_local_scalar_dense",
        "reason": "hands data to the host",
        "places": [place],
        "count": 160,
    }
    stats = {"ops": 1928, "followed": 1444, "replays": 3}
    report = reprise.Report({"mode": "cuda", "cuts": [cut], "stats": stats})
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= _words.WIDTH
    assert "      at " + place in "\n".join(lines)
    assert report.to_dict()["cuts"] == [cut]


def test_folding_keeps_all_words() -> None:
    for line in ("short", "  word" * 90, "x" * 300, f"  {'y' * 150} a; b (c d)"):
        folded = list(_words.fold(line))
        assert " ".join(folded).split() == line.split()
        assert all(
            len(each) <= _words.WIDTH or len(each.split()) == 1 for each in folded[1:]
        )


def test_each_counter_has_a_sentence() -> None:
    reprise.enable("cpu")
    torch.ones(3) * 2
    stats = reprise.stats()
    lines = str(stats).splitlines()
    fields = list(vars(stats))
    assert [line.split()[0] for line in lines] == fields
    for line, name in zip(lines, fields, strict=True):
        assert line.split()[1].replace(",", "") == str(getattr(stats, name))
        assert line.endswith("."), line
    assert repr(stats).startswith("Stats(ops=")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "12,345" in str(reprise.Stats(ops=12345))


# --- A process that confines itself -------------------------------------------------


def test_a_process_that_forbids_membarrier_meanwhile_runs_as_without() -> None:
    """Reprise needs that call of the kernel to be switched on again (skipping.h)."""
    result = fresh.program(
        """
        import ctypes, struct, warnings
        import torch, reprise

        warnings.simplefilter("ignore")
        x = torch.arange(4.0)
        reprise.enable("cpu")
        reprise.disable()

        # A filter of seccomp: call 324 is refused, all others are allowed.
        rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 324), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
        code = ctypes.create_string_buffer(
            b"".join(struct.pack("HBBI", *row) for row in rows)
        )
        filter = ctypes.create_string_buffer(
            struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code))
        )
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0
        assert libc.prctl(22, 2, filter) == 0, ctypes.get_errno()

        try:
            reprise.enable("cpu")
        except RuntimeError as error:
            print(error)
        print((x * 2).tolist(), reprise._native.active())
        """
    )
    assert "membarrier" in result.stdout
    assert "seccomp" in result.stdout
    assert result.stdout.splitlines()[-1] == "[0.0, 2.0, 4.0, 6.0] None"
