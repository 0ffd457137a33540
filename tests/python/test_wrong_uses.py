"""Wrong ways of using the package, and environments in which it cannot work.

Each is answered with one sentence that says what was given and what to do in its place:

   1. an option that is misspelt
   2. a value that an option does not take
   3. a device that there is not
   4. a model given to `enable`
   5. a region or an eager function of a result
   6. a word that `check` does not take
   7. a time that is no number of seconds
   8. counters compared with something else
   9. a plan that there is not
  10. a file that is no trace
  11. options that the backend does not take
  12. a script that there is not

Environments: no torch, another torch, no library, a broken library, no GPU, a variable that
is refused. What `reprise doctor` says of them is in test_doctor.py.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import fresh
import pytest
import reprise
import torch
from torch import nn

REGION = "give a callable, as in region(model), not what it returns"


def compiled_with(options: Any) -> Any:
    """As `torch.compile` calls the backend, whose errors it folds into its own."""
    return reprise.backend(torch.fx.symbolic_trace(nn.ReLU()), [], options=options)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "option": (
        lambda: reprise.enable("cpu", polcy="always"),
        "there is no option 'polcy': did you mean 'policy'? the options are enabled, ...",
    ),
    "value": (
        lambda: reprise.enable("cpu", policy="fast"),
        "option 'policy' does not accept 'fast': give auto, measured or always",
    ),
    "size": (
        lambda: reprise.enable("cpu", plan_budget_bytes="1 GB"),
        "option 'plan_budget_bytes' does not accept '1 GB': give a number of bytes, ...",
    ),
    "device": (
        lambda: reprise.enable("gpu"),
        "option 'device' does not accept 'gpu': give cpu, cuda, cuda:<index> or None",
    ),
    "model": (
        lambda: reprise.enable(nn.Sequential(nn.ReLU(), nn.ReLU())),  # type: ignore[arg-type]
        "option 'device' does not accept a Sequential: give cpu, cuda, cuda:<index> or "
        "None, and no model, because the whole program is watched",
    ),
    "result": (
        lambda: reprise.region(torch.ones(100, 3)),  # type: ignore[call-overload]
        f"region does not accept a Tensor: {REGION}",
    ),
    "number": (
        lambda: reprise.region(3),  # type: ignore[call-overload]
        f"region does not accept 3: {REGION}",
    ),
    "eager result": (
        lambda: reprise.eager([torch.ones(3)]),  # type: ignore[arg-type]
        "eager does not accept a list: give a callable, as in eager(model), not what it "
        "returns",
    ),
    "check": (
        lambda: reprise.region(len, check="now"),  # type: ignore[call-overload]
        "check does not accept 'now': give sample, always, never",
    ),
    "time": (
        lambda: reprise.wait("long"),  # type: ignore[arg-type]
        "timeout does not accept 'long': give seconds or None",
    ),
    "counters": (
        lambda: reprise.stats().since(3),  # type: ignore[arg-type]
        "since() does not accept 3: give what stats() returned before",
    ),
    "plan": (
        lambda: reprise.Report({}).dot("ab"),
        "there is no plan 'ab': there are no plans yet",
    ),
    "trace": (
        lambda: reprise.Timeline(dict).export_chrome_trace("new.json", beside=__file__),
        f"beside does not accept '{__file__}': give a file that export_chrome_trace of "
        "torch.profiler has written",
    ),
    "backend": (
        lambda: compiled_with({"mode": 3}),
        "options does not accept {'mode': 3}: give {'check': one of sample, always, never}",
    ),
}


@pytest.mark.parametrize(("use", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wrong_use_is_one_sentence_with_a_remedy(
    use: Callable[[], object], sentence: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        use()
    told = str(raised.value)
    assert "\n" not in told
    begin, cut, _ = f"reprise: {sentence}".partition("...")
    assert told.startswith(begin)
    assert cut or told == begin


def test_a_script_that_there_is_not_is_one_sentence() -> None:
    result = fresh.python("-m", "reprise", "run", "nowhere.py")
    assert result.returncode == 1
    assert result.stderr == "reprise: there is no script 'nowhere.py'\n"


ENABLE = "import torch, reprise\nreprise.enable({!r})"
ANOTHER = "import torch; torch.__version__ = '2.99.0'\n"
NO_LIBRARY = "RuntimeError: reprise has no library for torch "
# What Python runs, the variables that it has, and the end of what it says.
ENVIRONMENTS: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "no torch": (
        ("-S", "-c", "import reprise"),
        {},
        "ImportError: reprise needs torch, which is not installed: run `pip install .*`.*",
    ),
    "another torch": (
        ("-c", ANOTHER + ENABLE.format("cpu")),
        {},
        rf"{NO_LIBRARY}2\.99\.0: .*\)\. Run `pip install 'torch==.*",
    ),
    "no library": (
        ("-c", ENABLE.format("cpu")),
        {"REPRISE_LIBRARY": "{folder}/none"},
        rf"{NO_LIBRARY}.*\. Let REPRISE_LIBRARY name the folder .*, or unset it",
    ),
    "broken library": (
        ("-c", ENABLE.format("cpu")),
        {"REPRISE_LIBRARY": "{folder}"},
        r"RuntimeError: reprise cannot load .*: file too short\. Install Reprise anew, .*",
    ),
    "no GPU": (
        ("-c", ENABLE.format("cuda")),
        {"CUDA_VISIBLE_DEVICES": ""},
        r"RuntimeError: reprise: torch finds no CUDA device \(no GPU, or no driver that "
        r"fits\); device='cpu' selects the host executor",
    ),
    "variable": (
        ("-c", ENABLE.format("cpu")),
        {"REPRISE_MARGIN": "wide"},
        "ValueError: reprise: REPRISE_MARGIN: option 'margin' does not accept 'wide': "
        "give a number from 0 to 1",
    ),
}


@pytest.mark.parametrize(
    ("command", "variables", "sentence"), ENVIRONMENTS.values(), ids=ENVIRONMENTS
)
def test_a_wrong_environment_is_one_sentence_with_a_remedy(
    command: tuple[str, ...],
    variables: dict[str, str],
    sentence: str,
    tmp_path: pathlib.Path,
) -> None:
    minor = "".join(torch.__version__.split(".")[:2])
    (tmp_path / f"libreprise_torch_{minor}.so").touch()
    given = {name: each.format(folder=tmp_path) for name, each in variables.items()}
    result = fresh.python(*command, **given)
    assert result.returncode == 1
    assert re.fullmatch(sentence, result.stderr.splitlines()[-1]), result.stderr
