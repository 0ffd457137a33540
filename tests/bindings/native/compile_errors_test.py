"""Programs with a mistake that the compiler can see: one sentence says what is wrong.

compile_errors_test.py <compiler> <folder of reprise.h>
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import unittest

PRELUDE = """
#include <reprise.h>

#include <array>
#include <complex>
#include <string>
#include <vector>

using namespace reprise;
using Axpy = void(float, const float*, float*, int);

struct World {
  Runtime runtime;
  Stream stream;
  Batch batch;
  Plan plan;
  Kernel<Axpy> axpy;
  AnyKernel any;
  Buffer<float> x, y;
  Buffer<double> z;
  float a;
  int n;
};
"""
PROGRAM = """
Status Use(World& world) {{
  [[maybe_unused]] auto& [runtime, stream, batch, plan, axpy, any, x, y, z, a, n] = world;
  {body}
  return {{}};
}}
"""

# What a message may be long: where it is, what was asked for, and the sentence.
MOST_LINES = 20

RIGHT = """
  (void)batch.Launch(axpy, {.grid = {1}}, a, In(x), InOut(y), n);
  batch.Launch(axpy, {}, 0.5, x.data(), y.data(), 3u);
  const size_t shared = 3 * sizeof(float);
  batch.Launch(axpy, {.grid = {(n + 127) / 128, 1u, size_t{1}}, .shared_bytes = shared}, 1,
               In(x.span().first(3)), InOut(y.span().subspan(1)), size_t{3});
  batch.Copy(Out(x.span().first<2>()), In(std::span<const float>(y.span().first(2))));
  batch.Fill(InOut(x).count ? Out(x.span()) : Out(y), {});
  enum { kThree = 3 };
  batch.Launch(axpy, {.grid = {kThree}}, kThree, In(x), InOut(y), kThree);
  batch.Launch(any, {}, std::array{Argument(a)});
  batch.Launch(any, {}, std::vector{Argument(a), Argument(n)});
  batch.Copy(Out(x), In(y));
  batch.Fill(Out(x), 0);
  batch.Fill(Out(z), 0.0);
  batch.Capture([](CUstream_st*) {});
  batch.Capture(CaptureKey(n), [](CUstream_st*) -> Status { return {}; });
  REPRISE_RETURN_IF_ERROR(batch.Submit());
  REPRISE_ASSIGN_OR_RETURN(auto kernel, runtime.CompileKernel<void()>({"", ""}));
  batch.Launch(kernel, {});
  REPRISE_ASSIGN_OR_RETURN(
      auto host, runtime.HostKernel<void(int)>("host", [](const LaunchConfig&, int) {}));
  batch.Launch(host, {}, n);
  REPRISE_ASSIGN_OR_RETURN(x, stream.Upload(std::vector{1.0f, 2.0f}));
  std::array<float, 2> two{};
  (void)stream.CopyToDevice(x, two);
  (void)stream.CopyToHost(two, x.span().first<2>());
  (void)stream.Download(std::span<const float>(x.span()));
  (void)stream.Synchronize();
"""

SIGNATURE = (
    "a kernel's signature is void(P...): it returns nothing, and its parameters are "
    "values that are copied as bytes"
)
BUFFER = (
    "a Buffer does not say what the launch does with it: give In(buffer), Out(buffer) "
    "or InOut(buffer)"
)
COPY = "Copy takes Out(to) and In(from), of elements of one type"
LOST = "nodiscard"

# A mistake, and the sentence about it.
WRONG = {
    "buffer as an argument": ("batch.Launch(axpy, {}, a, x, InOut(y), n);", BUFFER),
    "buffer for a number": ("batch.Launch(axpy, {}, x, In(x), InOut(y), n);", BUFFER),
    "too few arguments": (
        "batch.Launch(axpy, {}, a, In(x), InOut(y));",
        "a launch takes as many arguments as the kernel has parameters",
    ),
    "argument of another type": (
        'batch.Launch(axpy, {}, a, In(x), InOut(y), std::string("3"));',
        "the argument's type does not fit the parameter's",
    ),
    "floating-point number for an integer": (
        "batch.Launch(axpy, {}, a, In(x), InOut(y), 3.7);",
        "an integer parameter takes an integer: round a floating-point number before",
    ),
    "integer for a bool": (
        'auto yes = *runtime.CompileKernel<void(bool)>({"", ""}); batch.Launch(yes, {}, 2);',
        "a bool parameter takes a bool",
    ),
    "number that a class would change": (
        'auto made = *runtime.CompileKernel<void(std::complex<float>)>({"", ""});'
        "batch.Launch(made, {}, 1e300);",
        "the argument's conversion may change its value: give a value of the parameter's "
        "own type",
    ),
    "grid of a fraction": (
        "batch.Launch(axpy, {.grid = {n / 2.0}}, a, In(x), InOut(y), n);",
        "a number of blocks, threads or bytes is an integer",
    ),
    "constant memory that is written": (
        "(void)Out(std::span<const float>(x.span()));",
        "Out and InOut take memory that is not const",
    ),
    "fill with a fraction": (
        "batch.Fill(Out(static_cast<int*>(nullptr), 1), 3.7);",
        "an integer parameter takes an integer: round a floating-point number before",
    ),
    "number for a pointer": (
        "batch.Launch(axpy, {}, a, 0, InOut(y), n);",
        "a pointer parameter takes a pointer",
    ),
    "null literal": (
        "batch.Launch(axpy, {}, a, nullptr, InOut(y), n);",
        "a pointer parameter takes a pointer",
    ),
    "pointer to other elements": (
        "batch.Launch(axpy, {}, a, z.data(), InOut(y), n);",
        "the argument's type does not fit the parameter's",
    ),
    "memory that is read for one that is written": (
        "batch.Launch(axpy, {}, a, In(x), In(y), n);",
        "In gives a pointer to const, Out and InOut one that is not; the kernel's "
        "parameter must take it",
    ),
    "result in place of its kernel": (
        'auto made = runtime.CompileKernel<Axpy>({"", ""});'
        "batch.Launch(made, {}, a, In(x), InOut(y), n);",
        "Launch takes a Kernel or an AnyKernel: of a Result, give its value, *kernel",
    ),
    "copy of buffers": ("batch.Copy(x, y);", COPY),
    "copy the wrong way round": ("batch.Copy(In(x), Out(y));", COPY),
    "copy of other elements": ("batch.Copy(Out(x), In(z));", COPY),
    "fill of a buffer": (
        "batch.Fill(x, 0.0f);",
        "Fill takes Out(to) and the value of an element",
    ),
    "fill of large elements": (
        "batch.Fill(Out(static_cast<std::complex<double>*>(nullptr), 1), 0.0);",
        "Fill takes elements of 1, 2, 4 or 8 bytes that are copied as bytes: fill "
        "larger ones by their parts",
    ),
    "captured work that takes no stream": (
        "batch.Capture([](int) {});",
        "captured work is called as work(stream), with a CUstream, and returns a Status "
        "or nothing",
    ),
    "captured work that returns a number": (
        "batch.Capture([](CUstream_st*) { return 3; });",
        "captured work is called as work(stream), with a CUstream, and returns a Status "
        "or nothing",
    ),
    "kernel that returns something": (
        '(void)runtime.CompileKernel<int(float)>({"", ""});',
        SIGNATURE,
    ),
    "kernel that is no function": (
        '(void)runtime.CompileKernel<float*>({"", ""});',
        SIGNATURE,
    ),
    "kernel that takes a string": (
        '(void)runtime.CompileKernel<void(std::string)>({"", ""});',
        SIGNATURE,
    ),
    "kernel that takes a reference": (
        '(void)runtime.AdoptKernel<void(float&)>(nullptr, "");',
        SIGNATURE,
    ),
    "host kernel that returns something": (
        '(void)runtime.HostKernel<int(int)>("", [](const LaunchConfig&, int) {});',
        SIGNATURE,
    ),
    "host kernel of other parameters": (
        '(void)runtime.HostKernel<Axpy>("", [](const LaunchConfig&, float*) {});',
        "the function of a host kernel is called as function(const LaunchConfig&, "
        "P...), with the parameters of its signature",
    ),
    "buffer in a plan": (
        "(void)plan.Set(0, 1, x);",
        "an argument is a value that is copied as bytes: of a Buffer it is its data()",
    ),
    "buffer of a kernel without types": (
        "(void)Argument(x);",
        "an argument is a value that is copied as bytes: of a Buffer it is its data()",
    ),
    "upload of strings": (
        "(void)stream.Upload(std::vector<std::string>(3));",
        "elements that are uploaded are copied as bytes",
    ),
    "download of strings": (
        "(void)stream.Download(std::span<std::string>());",
        "elements that are downloaded are copied as bytes",
    ),
    "status of a copy dropped": ("stream.CopyToDevice(x, std::array{a});", LOST),
    "status of a batch dropped": ("batch.Submit();", LOST),
    "status of a plan dropped": ("plan.Set(0, 0, 1.0f);", LOST),
    "result dropped": ("runtime.Allocate<float>(3);", LOST),
    "status of a function of one's own dropped": (
        "const auto own = []() -> Status { return {}; }; own();",
        LOST,
    ),
}


class CompileErrorsTest(unittest.TestCase):
    compiler, include = "", ""
    folder: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        prelude = cls.folder / "prelude.h"
        prelude.write_text(PRELUDE)
        done = cls.compile("-x", "c++-header", prelude, "-o", f"{prelude}.gch")
        if done.returncode != 0:
            raise AssertionError(done.stdout)

    @classmethod
    def compile(cls, *arguments: str | pathlib.Path) -> subprocess.CompletedProcess:
        return subprocess.run(
            (
                *(cls.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror"),
                *("-I", cls.include, *arguments),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def messages(self, body: str) -> str:
        source = self.folder / "program.cc"
        source.write_text(PROGRAM.format(body=body))
        prelude = self.folder / "prelude.h"
        return self.compile("-fsyntax-only", "-include", prelude, source).stdout

    def test_what_is_right_compiles(self) -> None:
        self.assertEqual(self.messages(RIGHT), "")

    def test_each_mistake_is_told_in_one_sentence(self) -> None:
        for name, (body, sentence) in WRONG.items():
            with self.subTest(name):
                said = self.messages(body)
                self.assertEqual(said.count("error:"), 1, said)
                self.assertIn(sentence, said)
                self.assertLessEqual(len(said.splitlines()), MOST_LINES, said)


if __name__ == "__main__":
    CompileErrorsTest.include = sys.argv.pop()
    CompileErrorsTest.compiler = sys.argv.pop()
    sys.exit(unittest.main())
