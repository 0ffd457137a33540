"""`reprise run script.py [args]`: run a script under `reprise.enable()`.

The same as `python -m reprise run script.py [args]`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import sys
from collections.abc import Iterator, Sequence

import reprise
from reprise import _doctor


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="reprise")
    parser.add_argument(
        "--version", action="version", version=f"reprise {reprise.__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a script under reprise.enable()")
    run.add_argument("--device", metavar="cuda|cpu", help="default: the best")
    run.add_argument("--policy", metavar="NAME", help="short for -o policy=NAME")
    run.add_argument(
        "-o",
        "--option",
        dest="options",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any of those that `reprise options` lists; wins over its variable",
    )
    run.add_argument(
        "--explain", action="store_true", help="print the report to stderr at the end"
    )
    run.add_argument(
        "--timeline",
        metavar="FILE",
        help="write what Reprise did and when, for ui.perfetto.dev",
    )
    run.add_argument("-m", dest="module", action="store_true", help="run a module")
    run.add_argument("script", help="a path, or a module's name after -m")
    run.add_argument("args", nargs=argparse.REMAINDER, help="for the script")
    commands.add_parser("options", help="list options, defaults and variables")
    doctor = commands.add_parser(
        "doctor", help="say what works here, and what to do where something does not"
    )
    doctor.add_argument("--json", action="store_true", help="the same for programs")
    return parser


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    """As `enable` takes them."""
    given: dict[str, str] = {}
    for text in arguments.options:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise SystemExit(f"reprise: --option does not accept '{text}': NAME=VALUE")
        given[name] = value
    if arguments.policy is not None:
        given["policy"] = arguments.policy
    return given


def _timeline_path(arguments: argparse.Namespace) -> str | None:
    """Of the file, wherever the script goes; None: none is wanted."""
    if arguments.timeline is None:
        return None
    path: str = os.path.abspath(arguments.timeline)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise SystemExit(
            f"reprise: --timeline does not accept '{arguments.timeline}': name a file in "
            "a folder that exists"
        )
    return path


@contextlib.contextmanager
def _timeline(path: str | None) -> Iterator[None]:
    """Written at the end, also of a script that raises."""
    if path is None:
        yield
        return
    with reprise.timeline() as timeline:
        try:
            yield
        finally:
            timeline.export_chrome_trace(path)


def _run(arguments: argparse.Namespace) -> None:
    options = _options(arguments)
    timeline = _timeline_path(arguments)
    if not arguments.module and not os.path.exists(arguments.script):
        raise SystemExit(f"reprise: there is no script '{arguments.script}'")
    sys.argv = [arguments.script, *arguments.args]
    try:
        reprise.enable(arguments.device, **options)
    except (RuntimeError, ValueError) as error:
        raise SystemExit(str(error)) from None
    try:
        with _timeline(timeline):
            if arguments.module:
                sys.path.insert(0, os.getcwd())
                runpy.run_module(arguments.script, run_name="__main__", alter_sys=True)
            else:
                sys.path[0] = os.path.dirname(os.path.abspath(arguments.script))
                runpy.run_path(arguments.script, run_name="__main__")
    finally:
        if arguments.explain:
            print(reprise.explain(), file=sys.stderr)


def _list_options() -> None:
    try:
        options = reprise.options()
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    for option in options:
        print(f"{option.name} ({option.variable}), default {option.default}")
        print(f"    {option.accepted}: {option.meaning}")


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and do what it says."""
    arguments = _parser().parse_args(argv)
    if arguments.command == "run":
        _run(arguments)
    elif arguments.command == "doctor":
        raise SystemExit(_doctor.main(as_json=arguments.json))
    else:
        _list_options()


if __name__ == "__main__":
    main()
