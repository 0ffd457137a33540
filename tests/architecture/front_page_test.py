"""README's first table and figure: how their rows are measured and written.

Needs no torch: a row's process is a stand-in that tells what front_rows.py would.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest
from typing import Any
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "perf"))

import front_page  # noqa: E402
import tables  # noqa: E402

ROW = """
import json, os, subprocess, sys, time
tell = lambda **message: print(json.dumps(message), flush=True)
program = sys.argv[1].removeprefix("--program=")
tell(where={"gpu": "GPU 1", "driver": "1", "torch": "2", "commit": sys.argv[2].partition("=")[2], "dirty": False})
if not sys.stdin.readline().strip():
    sys.exit()
tell(stage="compile")
if program == "model:vit_s_fp16":
    print("first\\nthe last word", file=sys.stderr)
    os._exit(3)
if program == "model:bert_fp16":
    helper = subprocess.Popen(["sleep", "60"])
    with open("helper", "w") as file:
        file.write(str(helper.pid))
    time.sleep(60)
times = {"eager": 400.0, "control": 410.0, "enable": 200.0, "region": 100.0, "graph": 90.0}
records = [
    {"mode": mode, "policy": "auto" if mode in ("enable", "region") else None,
     "median_us": us, "first_fast_s": 0.5, "first_calls_s": 3.0, "prepare_s": 0.25,
     "bits": True}
    for mode, us in times.items()
]
records.append({"mode": "compile", "policy": None, "error": "ValueError: no"})
records.append({"mode": "reduce_overhead", "policy": None, "median_us": 80.0,
                "first_fast_s": None, "first_calls_s": 12.0, "prepare_s": 1.0, "bits": False})
tell(records=records)
"""
ALL = list(tables.FRONT_PROGRAMS)


class FrontPageTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.record = self.folder / "front.jsonl"
        rows = self.folder / "rows.py"
        rows.write_text(ROW)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.set(front_page, "ROWS", rows)
        self.set(tables, "FRONT", self.record)

    def set(self, module: Any, name: str, value: object) -> None:
        """Until the test is over."""
        change = mock.patch.object(module, name, value)
        change.start()
        self.addCleanup(change.stop)

    def command(self, *words: str, commit: str = "abc") -> tuple[int, str, str]:
        """Exit status, stdout and stderr of the command."""
        out, err = io.StringIO(), io.StringIO()
        argv = ["perf/front_page.py", "--commit", commit, *words]
        with (
            mock.patch.object(sys, "argv", argv),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                status = front_page.main()
            except SystemExit as left:
                status = int(left.code or 0)
        return status, out.getvalue(), err.getvalue()

    def test_rows_are_written_whatever_happens_to_the_others(self) -> None:
        """One row's process ends early; the rows before and behind it are kept."""
        names = ["model:resnet50_fp16", "model:vit_s_fp16", "step:resnet18_b8"]
        status, out, err = self.command("--models", ",".join(names))
        self.assertEqual((status, err), (0, ""))
        found = tables.read_front()
        self.assertEqual(len(found), len(names) * len(tables.FRONT_MODES))
        row = "| ResNet-50 | 400 | 200 | 100 | failed | 80 | 0.8 / 0.8 / failed / > 12 | yes / yes / failed / no |"
        self.assertIn(row, out)
        self.assertIn("| ViT-S | failed | failed |", out)
        self.assertIn("at torch.compile its process ended: the last word", out)
        record = found["step:resnet18_b8", "region"]
        self.assertEqual(record["gpu"], "GPU 1")
        self.assertIn(f"--models {','.join(names)}", record["command"])
        self.assertNotIn("error", record)

    def test_a_row_whose_time_is_over_is_ended_with_what_it_started(self) -> None:
        status, out, _ = self.command("--models", "model:bert_fp16", "--seconds", "1.5")
        self.assertEqual(status, 0)
        self.assertIn("at torch.compile its time was over", out)
        helper = int((self.folder / "helper").read_text())
        for _ in range(100):
            stat = pathlib.Path(f"/proc/{helper}/stat")
            if not stat.exists() or stat.read_text().split()[2] == "Z":
                return
            time.sleep(0.05)
        self.fail("what the row started still runs")

    def test_two_commands_write_one_record(self) -> None:
        self.command("--models", "model:gpt2_bf16")
        old = tables.read_front()
        self.command("--models", "step:resnet18_b8,model:resnet50_fp16")
        found = tables.read_front()
        self.assertEqual(
            list(dict.fromkeys(program for program, _ in found)),
            ["model:resnet50_fp16", "model:gpt2_bf16", "step:resnet18_b8"],
        )
        self.assertLessEqual(old.items(), found.items())
        self.command("--models", "model:gpt2_bf16", "--dirty")
        again = tables.read_front()
        self.assertEqual(list(again), list(found))
        self.assertIn("--dirty", again["model:gpt2_bf16", "eager"]["command"])

    def test_a_record_is_of_one_commit_and_one_gpu(self) -> None:
        self.command("--models", "model:gpt2_bf16")
        before = self.record.read_text()
        status, out, err = self.command("--models", "model:gpt2_bf16", commit="def")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("is of commit abc, and this is def", err)
        self.assertEqual(len(err.splitlines()), 1)
        self.record.write_text(before.replace("GPU 1", "GPU 2"))
        status, _, err = self.command("--models", "step:resnet18_b8")
        self.assertEqual(status, 1)
        self.assertIn("is of gpu GPU 2, and this is GPU 1", err)

    def test_bad_words_get_a_sentence(self) -> None:
        for words, said in (
            (["--models", "foo"], "no row is 'foo'; rows are model:resnet50_fp16,"),
            (["--quick"], "--quick measures too little for the record"),
            (["--draw"], "there is no record"),
        ):
            status, out, err = self.command(*words)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(said, err)

    def test_what_a_row_leaves_is_the_others(self) -> None:
        whole = front_page.allowed(ALL, 470.0)
        behind = [front_page.NEEDED[name.partition(":")[0]] for name in ALL[1:]]
        self.assertEqual(whole, 470.0 - sum(behind))
        self.assertEqual(front_page.allowed(ALL[-1:], 100.0), 100.0)
        self.assertAlmostEqual(front_page.allowed(ALL[:2], 20.0), 10.0)

    def pages(self) -> Any:
        """README and the figures of a tree in which all was measured."""
        self.command(
            "--models",
            ",".join(
                n for n in ALL if n != "model:vit_s_fp16" and n != "model:bert_fp16"
            ),
        )
        readme = self.folder / "README.md"
        readme.write_text(
            "<!-- table front_figure -->\n<!-- end -->\n"
            "<!-- table front -->\n<!-- end -->\n"
            "a <!-- number reduce_overhead_range --><!-- end --> times,"
            " <!-- number front_where --><!-- end -->,"
            " <!-- number peers_where --><!-- end -->\n"
        )
        figures = {t: self.folder / f"front-{t}.svg" for t in ("light", "dark")}
        for name, value in (
            ("ROOT", self.folder),
            ("PAGES", ("README.md",)),
            ("FRONT_FIGURES", figures),
        ):
            self.set(tables, name, value)
        self.draw(figures["light"])
        self.draw(figures["dark"])
        return readme, figures["light"]

    def draw(self, path: pathlib.Path) -> None:
        """A figure's numbers, without the figure."""
        bars = json.dumps(tables.front_bars(tables.read_front()))
        path.write_text(f"<dc:description>{bars}</dc:description>")

    def check(self, *words: str) -> tuple[int, str]:
        """Exit status and stderr of tables.py."""
        err = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["tables.py", *words]),
            contextlib.redirect_stderr(err),
        ):
            return tables.main(), err.getvalue()

    def test_the_page_and_the_figure_say_what_the_record_says(self) -> None:
        readme, figure = self.pages()
        self.assertEqual(self.check("--check")[0], 1)
        self.assertEqual(self.check(), (0, ""))
        self.assertEqual(self.check("--check"), (0, ""))
        text = readme.read_text()
        self.assertIn("-->0.4 to 0.4<!--", text)
        self.assertIn('runs ResNet-50 and GPT-2" src="front-light.svg">', text)
        self.assertIn("-->one GPU 1 at commit abc (the default policy, `auto`)<", text)
        self.assertIn("-->an GPU 1 at abc<", text)
        for old, new in (
            ("| 100 |", "| 99 |"),
            ("0.4 to", "0.3 to"),
            ("`auto`", "`x`"),
        ):
            readme.write_text(text.replace(old, new))
            status, err = self.check("--check")
            self.assertEqual(status, 1, old)
            self.assertIn("README.md has numbers that no record has", err)
        readme.write_text(text)
        self.record.write_text(self.record.read_text().replace("100.0", "50.0"))
        self.check()
        status, err = self.check("--check")
        self.assertEqual(status, 1)
        self.assertIn("front-light.svg is not what front.jsonl says", err)
        self.assertIn("front-dark.svg is not what front.jsonl says", err)
        self.draw(figure)
        self.draw(figure.with_name("front-dark.svg"))
        self.assertEqual(self.check("--check"), (0, ""))
        figure.unlink()
        self.assertEqual(self.check("--check")[0], 1)


if __name__ == "__main__":
    unittest.main()
