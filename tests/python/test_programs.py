"""The programs of perf/programs.py are replayed with eager's bits; what it writes is so.

Each program is run on the host executor, at its small size; how fast it is is not asked.
"""

from __future__ import annotations

import collections
import gc
import importlib
import importlib.util
import json
import pathlib
import sys
from typing import Any

import fresh
import pytest
import skips
import torch
import watching

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path.insert(0, str(PERF))  # other modules there have names of the tests' own
user_programs: Any = importlib.import_module("user_programs")
program_tables: Any = importlib.import_module("program_tables")
program: Any = importlib.import_module("user_programs.program")
program_regions: Any = importlib.import_module("program_regions")
stream: Any = importlib.import_module("user_programs.stream")
sys.path.remove(str(PERF))

SETTING = user_programs.Setting("cpu", "small")
PASSES = 14
# Of programs whose passes differ in a number, a length or the host's reads.
MORE_PASSES = {
    "accelerate_loop": 40,
    "bert_lengths": 40,
    "contrastive_queue": 80,
    "dqn": 40,
    "molecular_dynamics": 160,
    "proximal_gradient": 40,
    "sentence_encode": 40,
    "spectral_turbulence": 40,
}
# Of torch alone: all of their calls are replayed once Reprise knows them.
AS_REGIONS = (
    "dqn",
    "gan",
    "hamiltonian_monte_carlo",
    "kalman_filter",
    "point_cloud",
    "recommender",
    "shallow_water",
)


def left(name: str, wait: Any = lambda: True) -> dict[str, str]:
    """Hashes of all that passes of a program show and leave."""
    built = user_programs.ALL[name].start(SETTING)
    outputs = []
    for number in range(MORE_PASSES.get(name, PASSES)):
        outputs.append(built.step(number))
        assert wait()
    return program.digests(outputs, built, "cpu")


def skip_without_libraries(name: str) -> None:
    for library in user_programs.ALL[name].needs:
        if importlib.util.find_spec(library) is None:
            pytest.skip(skips.NO_PROGRAM_LIBRARY.format(library))


@pytest.mark.parametrize("name", user_programs.ALL)
def test_a_program_has_eagers_bits(name: str) -> None:
    skip_without_libraries(name)
    expected = left(name)
    gc.collect()
    with watching.watched("cpu", replays=False) as session:
        found = left(name, lambda: session.wait(watching.BUILD_TIMEOUT_S))
        replays = session.stats().replays
        report = str(session.explain())
        session.reset()
    names = [*expected, *(key for key in found if key not in expected)]
    assert [key for key in names if found.get(key) != expected.get(key)] == [], report
    assert replays > 0, report


@pytest.mark.parametrize("name", AS_REGIONS)
def test_a_program_as_regions_has_eagers_bits(name: str) -> None:
    found = program_regions.compare(user_programs.ALL[name], SETTING, 16)
    assert found["bits"], found["differing"]
    assert found["passes"] == 16 and found["compared"] > 3
    for each in found["regions"]:
        assert each["replayed"] > 0, each
    assert found["share"] == 1.0, found["regions"]
    assert found["replays"] > 0


def test_programs_make_regions_where_they_are_asked_to() -> None:
    setting = user_programs.Setting("cpu", "small", regions=[])
    for name in AS_REGIONS:
        setting.regions.clear()
        user_programs.ALL[name].start(setting)
        assert setting.regions, name
        assert all(hasattr(made, "explain") for made in setting.regions)
    assert SETTING.region(len) is len


def test_a_difference_of_regions_is_told() -> None:
    def build(setting: Any) -> Any:
        shift = 0.0 if setting.regions is None else 1.0

        @setting.region
        def move(x: torch.Tensor) -> torch.Tensor:
            return x + shift

        return user_programs.Built(lambda i: move(torch.full((2,), float(i))), [])

    found = program_regions.compare(program.Program("one", "", build, ()), SETTING, 12)
    assert found["bits"] is False
    assert found["differing"] == [f"pass {i}" for i in range(5)]
    assert found["replayed"] > 0
    assert "DIFFER" in program_regions.table([{"program": "one"} | found])


def test_the_command_says_what_became_of_regions(tmp_path: pathlib.Path) -> None:
    record = tmp_path / "regions.jsonl"
    command = ["--host", "--size=small", "--commit=abc", f"--regions={record}"]
    command += ["--region-passes=12", "--programs", "shallow_water"]
    result = fresh.python(str(PERF / "programs.py"), *command)
    assert result.returncode == 0, result.stderr
    (row,) = [json.loads(line) for line in record.read_text().splitlines()]
    assert row["bits"] and row["share"] == 1.0 and row["passes"] == 12
    assert (row["program"], row["commit"]) == ("shallow_water", "abc")
    (region,) = row["regions"]
    assert region["calls"] == row["calls"] == 12
    assert 0 < region["replayed"] == row["replayed"] < 12
    assert result.stdout.split() == ["shallow_water", "100%", "same"]


def test_a_hash_sees_every_bit() -> None:
    def same(one: Any, other: Any) -> bool:
        return program.digest(one) == program.digest(other)

    nan = torch.full((2, 3), float("nan"))
    assert same(nan, nan.clone())
    assert same(torch.tensor(1 + 2j).conj(), torch.tensor(1 - 2j))
    assert not same(torch.zeros(3), -torch.zeros(3))
    assert not same(torch.zeros(3), torch.zeros(3, dtype=torch.int32))
    assert not same(torch.zeros(2, 3), torch.zeros(6))
    assert not same(torch.zeros(2, 3), torch.zeros(3, 2).T)
    assert not same(1.0, torch.tensor(1.0))
    assert not same(0.1, 0.1 + 2**-56)


def test_all_that_a_program_keeps_is_named() -> None:
    model = torch.nn.BatchNorm1d(2)
    optimizer = torch.optim.Adam(model.parameters())
    weight = torch.ones(2, requires_grad=True)
    (model(torch.randn(3, 2)).sum() + weight.sum()).backward()
    optimizer.step()
    kept = [model, optimizer, [weight], lambda: {"rounds": 3}]
    built = user_programs.Built(lambda _: None, kept)
    names = " ".join(program.digests([torch.ones(2)], built, "cpu"))
    for part in (
        "generators.cpu",
        "generators.numpy",
        "generators.python",
        "pass 0",
        "running_mean",
        "num_batches_tracked",
        "bias.grad",
        "exp_avg_sq",
        "param_groups.0.lr",
        "0.grad",
        "rounds",
    ):
        assert part in names


def recorded(name: str, folder: pathlib.Path, passes: int = 2) -> list[dict[str, Any]]:
    """The lines that a recording writes, its head among them."""
    path = folder / f"{name}.jsonl"
    stream.record(user_programs.ALL[name], SETTING, passes, path)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_recording_describes_passes(tmp_path: pathlib.Path) -> None:
    head, *lines = recorded("shallow_water", tmp_path)
    assert head["format"] == stream.FORMAT
    assert (head["program"], head["passes"]) == ("shallow_water", 2)
    begins = [index for index, line in enumerate(lines) if "pass" in line]
    assert [lines[index]["pass"] for index in begins] == [0, 1]
    first, second = lines[1 : begins[1]], lines[begins[1] + 1 :]
    assert first == second  # the same slices of the same fields
    in_place = [line for line in first if "writes" in line]
    assert len(in_place) == 64
    count = collections.Counter(line["op"].partition(".")[0] for line in in_place)
    assert count == {
        "aten::mul_": 8,
        "aten::sub_": 20,
        "aten::add_": 20,
        "aten::copy_": 16,
    }
    for line in in_place:
        assert line["writes"] == [0]
        assert line["out"] == [line["in"][0]]
    assert len({line["in"][0][0] for line in in_place}) == 3
    side = 16
    inner = [0, side + 1, [side - 2, side - 2], [side, 1], "float32", "cpu"]
    assert in_place[0]["in"][0][1:] == inner[1:]


def test_a_recording_has_reads_and_memory(tmp_path: pathlib.Path) -> None:
    _, *lines = recorded("k_means", tmp_path)
    reads = [line["op"] for line in lines if line.get("reads") == "value"]
    assert reads == ["aten::_local_scalar_dense"] * 2
    made = [t[0] for line in lines for t in line.get("out", [])]
    assert len(set(made)) > 10
    distances = [line["out"][0][0] for line in lines if "cdist" in line.get("op", "")]
    assert len(set(distances)) == len(distances)  # never the same number again
    _, *lines = recorded("mixture_of_experts", tmp_path, passes=1)
    assert [line for line in lines if line.get("reads") == "shape"]
    _, *lines = recorded("gan", tmp_path, passes=1)
    assert [line["op"] for line in lines if line.get("random")] == ["aten::randn"]
    _, *lines = recorded("beam_search", tmp_path, passes=1)
    assert [line["read"] for line in lines if "read" in line] == ["Tensor.tolist"]


def test_the_command_measures_a_program(tmp_path: pathlib.Path) -> None:
    record = tmp_path / "record.jsonl"
    command = ["--host", "--size=small", "--commit=abc", f"--output={record}"]
    command += ["--seconds=0.1", "--rounds=2", "--block=0.01", "--passes=14"]
    script = str(PERF / "programs.py")
    result = fresh.python(script, *command, "--programs", "shallow_water")
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    ways = {row["mode"]: row for row in rows}
    assert list(ways) == ["eager", "control", "default", "always", "region"]
    assert [row.get("error") for row in rows] == [None] * 5
    for row in rows:
        assert row["deterministic"] and row["bits"] and row["compared"] > 3
        assert row["commit"] == "abc"
        assert row["pass_us"] > 0 and row["back_to_back_us"] > 0
        assert row["first_second"] > 0
    for way in ("default", "always", "region"):
        assert ways[way]["replays"] > 0 and ways[way]["bits_replays"] > 0
        assert ways[way]["first_replay_pass"] > 0
        assert ways[way]["followed"] > 0.5
        assert "replayed" in ways[way]["report"]
    assert ways["region"]["calls"] > 0
    assert ways["region"]["calls_replayed"] == ways["region"]["calls"]
    assert "calls" not in ways["default"]
    assert "shallow_water" in result.stdout and "geometric mean" in result.stdout
    again = fresh.python(script, *command, "--programs", "shallow_water")
    assert again.stdout == result.stdout  # nothing is measured a second time


def test_a_way_that_fails_says_why(tmp_path: pathlib.Path) -> None:
    record = tmp_path / "record.jsonl"
    command = ["--host", "--size=small", "--commit=abc", f"--output={record}"]
    command += ["--seconds=0.1", "--rounds=2", "--block=0.01", "--passes=2"]
    command += ["--programs", "shallow_water", "--ways", "default", "region"]
    nowhere = str(tmp_path / "no_library")
    result = fresh.python(str(PERF / "programs.py"), *command, REPRISE_LIBRARY=nowhere)
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    for row in rows:
        if row["mode"] in ("default", "region"):
            assert "RuntimeError" in row["error"]
            assert f"shallow_water {row['mode']}: {row['error']}" in result.stdout
        else:
            assert row["pass_us"] > 0 and row["bits"]
    assert len(rows) == 4


def test_the_command_refuses_what_is_no_program() -> None:
    result = fresh.python(str(PERF / "programs.py"), "--programs", "gun")
    assert result.returncode == 2
    assert "no program is 'gun': --list names them" in result.stderr


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = program.Program("one", "says", lambda _: None, ("no_such_library",))
    assert program.missing(found) == (
        "one is left out: the library no_such_library is not installed"
    )
    assert program.missing(user_programs.ALL["gan"]) is None


def test_the_table_says_what_went_wrong() -> None:
    def way(mode: str, **more: Any) -> dict[str, Any]:
        found = {"program": "one", "mode": mode, "pass_us": 100.0, "bits": True}
        found |= {"first_second_ratio": 2.0, "ratio": 4.0, "back_to_back_ratio": 1.0}
        found |= {"followed": 0.5, "first_replay_pass": 7, "bits_replays": 3}
        return found | more

    rows = [way("eager"), way("default", ratio=1.0), way("always", bits_replays=0)]
    lines = program_tables.table(rows).splitlines()
    cells = lines[2].split()
    assert cells[:8] == ["one", "100", "2.00", "2.00", "1.00", "4.00", "1.00", "1.00"]
    assert "yes  " in lines[2] and "yes, no replay" in lines[2]
    assert lines[-1].startswith("geometric mean")
    rows.append(way("region", ratio=8.0, calls=40, calls_replayed=10))
    lines = program_tables.table(rows).splitlines()
    assert lines[1].split() == ["default", "always", "region"] * 6
    assert lines[2].split()[5:8] == ["1.00", "4.00", "8.00"]
    assert lines[2].split()[-9:-3] == ["50", "%", "50", "%", "25", "%"]
    wrong = [
        way("eager"),
        way("default", bits=False, differing=["pass 3"]),
        {"program": "one", "mode": "always", "error": "RuntimeError: no"},
    ]
    found = program_tables.table(wrong)
    assert "one default: differs in pass 3" in found
    assert "one always: RuntimeError: no" in found
    gone = {"program": "two", "error": "two is left out"}
    assert "two is left out" in program_tables.table([gone])
