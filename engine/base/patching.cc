#include "engine/base/patching.h"

namespace reprise::base {

const char* ToString(Patching patching) {
  switch (patching) {
    case Patching::kMeasured:
      return "measured";
    case Patching::kSetParams:
      return "SetParams";
    case Patching::kTable:
      return "a table";
    case Patching::kExecUpdate:
      return "ExecUpdate";
  }
  return "?";
}

}  // namespace reprise::base
