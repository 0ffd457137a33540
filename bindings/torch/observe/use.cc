#include "bindings/torch/observe/use.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "bindings/torch/base/python_api.h"
#include "bindings/torch/runtime/others_memory.h"

namespace reprise::bindings {
namespace {

// The tensor that a function of C has taken as its first argument, in a tuple
// or by its name.
const void* FirstOf(void* arguments, void* named) {
  static auto* const size_of = OfPython<intptr_t(void*)>("PyTuple_Size");
  static auto* const item_of =
      OfPython<void*(void*, intptr_t)>("PyTuple_GetItem");
  static auto* const item_named =
      OfPython<void*(void*, const char*)>("PyDict_GetItemString");
  if (size_of == nullptr || item_of == nullptr || item_named == nullptr) {
    return nullptr;
  }
  if (size_of(arguments) > 0) return item_of(arguments, 0);
  return named == nullptr ? nullptr : item_named(named, "data");
}

}  // namespace

bool UsesMemoryOf(scheduler::DeviceKind kind, Use use, const void* first) {
  const bool cuda = kind == scheduler::DeviceKind::kCuda;
  switch (use) {
    case Use::kTensor:
    case Use::kTensorsAddress: {
      const void* held = static_cast<const PythonObject*>(first)->held;
      return held != nullptr &&
             static_cast<const c10::TensorImpl*>(held)->key_set().has_backend(
                 cuda ? c10::BackendComponent::CUDABit
                      : c10::BackendComponent::CPUBit);
    }
    case Use::kStorage:
    case Use::kStoragesAddress: {
      const void* held = static_cast<const PythonObject*>(first)->held;
      return held != nullptr &&
             static_cast<const c10::StorageImpl*>(held)->device_type() ==
                 (cuda ? c10::kCUDA : c10::kCPU);
    }
    case Use::kStreams:
    case Use::kGraph:
    case Use::kScripts:
    case Use::kPlans:
      return cuda;
    case Use::kSeeds:
    case Use::kWaits:
    case Use::kSavedTensors:
    case Use::kNoHooks:
    case Use::kModes:
    case Use::kOffset:
    case Use::kOrigin:
    case Use::kHistory:
    case Use::kTakesState:
    case Use::kSetsState:
      return false;
    case Use::kMemory:
    case Use::kExports:
    case Use::kExportsFast:
    case Use::kLaunches:
    case Use::kKernels:
    case Use::kLibraries:
      break;
  }
  return true;
}

bool MayWriteUnseen(Use use) {
  switch (use) {
    case Use::kTensor:
    case Use::kTensorsAddress:
    case Use::kStorage:
    case Use::kStoragesAddress:
    case Use::kMemory:
    case Use::kExports:
    case Use::kExportsFast:
    case Use::kLaunches:
    case Use::kGraph:
    case Use::kScripts:
      return true;
    default:
      return false;
  }
}

const char* ReasonOf(Use use) {
  switch (use) {
    case Use::kSeeds:
    case Use::kSetsState:
      return "a random generator is set";
    case Use::kScripts:
      return "a function of TorchScript is called, which may be fused";
    case Use::kSavedTensors:
      return "hooks are set on what autograd has saved";
    case Use::kModes:
      return "a dispatch mode begins inside, whose Python no replay runs";
    case Use::kStreams:
    case Use::kGraph:
    case Use::kWaits:
      return "streams or graphs of CUDA are used";
    case Use::kKernels:
    case Use::kLibraries:
      return "kernels of operators are registered";
    case Use::kPlans:
      return "a library's plans are freed";
    default:
      return "memory is used without an op (data_ptr, numpy, tolist)";
  }
}

void NoteGiven(Use use, const void* first, void* second, void* third) {
  const void* given = nullptr;
  switch (use) {
    case Use::kTensorsAddress:
    case Use::kStoragesAddress:
      given = first;
      break;
    case Use::kExports:
      given = FirstOf(second, third);
      break;
    case Use::kExportsFast:
      given = *static_cast<void* const*>(second);  // by its name, too
      break;
    default:
      return;
  }
  if (given == nullptr) return;
  const void* const held = static_cast<const PythonObject*>(given)->held;
  if (held == nullptr) return;
  if (use == Use::kStoragesAddress) {
    NoteAddressGiven(*static_cast<const c10::StorageImpl*>(held));
  } else if (const c10::Storage& storage =
                 static_cast<const c10::TensorImpl*>(held)->unsafe_storage()) {
    NoteAddressGiven(*storage.unsafeGetStorageImpl());
  }
}

}  // namespace reprise::bindings
