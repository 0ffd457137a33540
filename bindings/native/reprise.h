// Reprise as a launch layer for C++ programs: kernels compiled at run time,
// batches of launches, and graphs that are built, patched and launched behind
// them.
//
//   using namespace reprise;
//   const Runtime runtime = ValueOrExit(Runtime::Create({}));
//   const Stream stream = ValueOrExit(runtime.CreateStream());
//   const auto axpy = ValueOrExit(
//       runtime.CompileKernel<void(float, const float*, float*, int)>(
//           {.source = kAxpy, .name = "axpy"}));
//   for (int step = 0; step < steps; ++step) {
//     Batch batch = stream.BeginBatch("step");
//     batch.Launch(axpy, {.grid = {blocks}, .block = {128}},
//                  0.5f * step, In(x), InOut(y), n);
//     ValueOrExit(batch.Submit());
//   }
//
// Nothing throws. What can fail returns a Status, or a Result with a value: a
// code for programs and a sentence for people. ValueOrExit is for small
// programs; others hand errors on (REPRISE_ASSIGN_OR_RETURN). docs/cpp.md is
// the tutorial.

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
#include "bindings/native/runtime_options.h"
#include "bindings/native/stream.h"
#include "bindings/native/timeline.h"
#include "bindings/native/timing.h"
#include "bindings/native/value_or_exit.h"
#include "bindings/native/version.h"

#endif  // REPRISE_BINDINGS_NATIVE_REPRISE_H_
