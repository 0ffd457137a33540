#include "engine/device/cupti.h"

#include <memory>

#include "engine/device/shared_library.h"

namespace reprise::device {
namespace {

constexpr char kNoCupti[] =
    "CUPTI of CUDA 13 was not found: install it (pip install "
    "\"nvidia-cuda-cupti==13.0.*\", or the CUDA toolkit), and name the folder "
    "of libcupti.so.13 in LD_LIBRARY_PATH";

base::Result<const Cupti*> LoadCupti() {
  REPRISE_ASSIGN_OR_RETURN(void* library,
                           OpenSharedLibrary("libcupti.so.13", kNoCupti));
  auto cupti = std::make_unique<Cupti>();
#define REPRISE_LOAD(name)                                             \
  cupti->name =                                                        \
      reinterpret_cast<decltype(&::name)>(FindSymbol(library, #name)); \
  if (cupti->name == nullptr) {                                        \
    return base::Fail(base::Code::kUnavailable,                        \
                      "libcupti.so.13 has no " #name);                 \
  }
  REPRISE_CUPTI_ENTRIES(REPRISE_LOAD)
#undef REPRISE_LOAD
  return cupti.release();
}

}  // namespace

base::Result<const Cupti*> Cupti::Load() {
  // Never destroyed: a callback may read it until the very end.
  static const auto* const loaded = new base::Result<const Cupti*>(LoadCupti());
  return *loaded;
}

}  // namespace reprise::device
