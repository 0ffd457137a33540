// What a program gives a batch to capture, as a function of one type.

#ifndef REPRISE_BINDINGS_NATIVE_CAPTURED_WORK_H_
#define REPRISE_BINDINGS_NATIVE_CAPTURED_WORK_H_

#include <type_traits>
#include <utility>

#include "bindings/native/common.h"
#include "engine/batch/capture.h"

namespace reprise::native {

// `work` is called as work(stream), with a CUstream, and returns a Status or
// nothing, which is success. Others do not compile.
template <typename F>
engine::CaptureFunction CapturedWork(F&& work) {
  constexpr bool kIsVoid = [] {
    if constexpr (std::is_invocable_v<F&, CUstream_st*>) {
      return std::is_void_v<std::invoke_result_t<F&, CUstream_st*>>;
    }
    return false;
  }();
  constexpr bool kFits =
      kIsVoid || std::is_invocable_r_v<Status, F&, CUstream_st*>;
  static_assert(kFits,
                "captured work is called as work(stream), with a CUstream, "
                "and returns a Status or nothing");
  if constexpr (kIsVoid) {
    return [work = std::forward<F>(work)](CUstream_st* stream) mutable {
      work(stream);
      return Status();
    };
  } else if constexpr (kFits) {
    return std::forward<F>(work);
  } else {
    return {};
  }
}

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_CAPTURED_WORK_H_
