// Reprise as a launch layer for C++ programs: kernels compiled at run time,
// batches of launches, and graphs that are built, patched and launched behind
// them.
//
//   auto runtime = reprise::Runtime::Create({});
//   auto axpy = runtime->CompileKernel<void(float, const float*, float*, int)>(
//       {.source = kAxpy, .name = "axpy"});
//   auto stream = runtime->CreateStream();
//   for (int step = 0; step < steps; ++step) {
//     auto batch = stream->BeginBatch();
//     batch.Launch(*axpy, {.grid = {blocks}, .block = {128}},
//                  a, In(x, n), InOut(y, n), n);
//     if (auto submitted = batch.Submit(); !submitted) ...
//   }
//
// Nothing throws; what fails is a Status or Result with a code for programs and
// a sentence for people. docs/cpp.md is the tutorial.

#ifndef REPRISE_BINDINGS_NATIVE_REPRISE_H_
#define REPRISE_BINDINGS_NATIVE_REPRISE_H_

#include "bindings/native/any_kernel.h"
#include "bindings/native/batch.h"
#include "bindings/native/buffer.h"
#include "bindings/native/device_info.h"
#include "bindings/native/event.h"
#include "bindings/native/host_copy.h"
#include "bindings/native/kernel.h"
#include "bindings/native/plan.h"
#include "bindings/native/runtime.h"
#include "bindings/native/stream.h"
#include "bindings/native/timeline.h"
#include "bindings/native/value_or_exit.h"
#include "bindings/native/version.h"

#endif  // REPRISE_BINDINGS_NATIVE_REPRISE_H_
