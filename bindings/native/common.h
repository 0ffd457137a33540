// What all of the C++ API shares.

#ifndef REPRISE_BINDINGS_NATIVE_COMMON_H_
#define REPRISE_BINDINGS_NATIVE_COMMON_H_

#include "engine/base/export.h"
#include "engine/base/patching.h"
#include "engine/base/status.h"
#include "engine/batch/count.h"
#include "engine/batch/launch_config.h"

namespace reprise {

using base::Code;
using base::Error;
// The error of a function that returns a Status or a Result:
//   return Fail(Code::kInvalidArgument, "side is 0: give 2 or more");
using base::Fail;
using base::Patching;
using base::Result;
using base::Status;
using base::ToString;
using engine::Count;
using Dim3 = engine::LaunchDim3;
using engine::LaunchConfig;

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_COMMON_H_
