#include "bindings/torch/runtime/op_warnings.h"

namespace reprise::bindings {

void OpWarnings::process(const c10::Warning& warning) {
  any_ = true;
  before_->process(warning);
}

}  // namespace reprise::bindings
