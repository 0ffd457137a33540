// A list of launches, complete before any of it runs.

#ifndef REPRISE_BINDINGS_NATIVE_BATCH_H_
#define REPRISE_BINDINGS_NATIVE_BATCH_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "bindings/native/annotated.h"
#include "bindings/native/any_kernel.h"
#include "bindings/native/captured_work.h"
#include "bindings/native/common.h"
#include "bindings/native/conversion.h"
#include "bindings/native/event.h"
#include "bindings/native/kernel.h"
#include "bindings/native/timing.h"
#include "engine/batch/batch_record.h"
#include "engine/batch/capture.h"

namespace reprise {

using engine::CaptureKey;

class Plan;

namespace native {
class StreamCore;

template <typename... P>
void AsKernel(const Kernel<void(P...)>&);
void AsKernel(const AnyKernel&);
template <typename K>
concept NoKernel = !requires(const K& kernel) {
  AsKernel(kernel);
};
template <typename To>
concept NoOut = !kIsOut<To>;
}  // namespace native

// Made by Stream::BeginBatch, filled by one thread, submitted once or dropped.
// Kernels must live until then. What is wrong with a launch (a null pointer, a
// grid of zero, the limits of the device, a batch that was submitted already)
// is told by Submit, before anything is launched. Cost: 10 to 25 ns a launch.
class Batch {
 public:
  REPRISE_EXPORT explicit Batch(std::shared_ptr<native::StreamCore> stream,
                                std::string_view name = {});
  // What was moved from is as if it had been submitted.
  REPRISE_EXPORT Batch(Batch&& other) noexcept;
  REPRISE_EXPORT ~Batch();
  Batch& operator=(Batch&&) = delete;

  // Returns the number of the launch in its batch, for Plan::Set. A number
  // reaches the kernel with its value (but floating-point numbers are rounded
  // to the parameter's precision): what types tell does not compile, what
  // values tell is refused by Submit.
  template <typename... P, typename... A>
  uint32_t Launch(const Kernel<void(P...)>& kernel, const LaunchConfig& config,
                  const A&... arguments) {
    static_assert(sizeof...(P) == sizeof...(A),
                  "a launch takes as many arguments as the kernel has "
                  "parameters");
    using Image = native::ParamImage<P...>;
    std::byte* image = record_->AddKernel(kernel.code(), config, Image::kBytes);
    if constexpr (!Image::kDense) std::memset(image, 0, Image::kBytes);
    if constexpr (sizeof...(P) == sizeof...(A)) {
      [[maybe_unused]] size_t i = 0;
      (Put<P>(image + Image::kOffsets[i], i, arguments), ...);
    }
    return record_->EndLaunch();
  }

  // The same with arguments whose sizes are compared with the parameters' when
  // the batch is submitted. Nothing is known of their types: such a launch
  // keeps its place in the program's order.
  REPRISE_EXPORT uint32_t Launch(const AnyKernel& kernel,
                                 const LaunchConfig& config,
                                 std::span<const Argument> arguments);

  template <native::NoKernel K, typename... A>
  uint32_t Launch(const K&, const LaunchConfig&, const A&...) {
    static_assert(native::kNever<K>,
                  "Launch takes a Kernel or an AnyKernel: of a Result, give "
                  "its value, *kernel");
    return 0;
  }

  // Copies within the device; as many elements as both name, to memory that
  // does not overlap with what is read. Its addresses are arguments, the number
  // of bytes is not: another one is another batch.
  template <typename T>
  uint32_t Copy(native::Annotated<T, false, true> to,
                native::Annotated<const T, true, false> from) {
    const uint32_t launch =
        record_->AddCopy(to.data, from.data, to.count, sizeof(T));
    if (to.count != from.count) {
      record_->Refuse("copies " + std::to_string(from.count) + " elements to " +
                      std::to_string(to.count) +
                      ": name as many of both, as in span().first(" +
                      std::to_string(std::min(to.count, from.count)) + ")");
    }
    return launch;
  }
  template <typename To, typename From>
  uint32_t Copy(const To&, const From&) {
    static_assert(native::kNever<To>,
                  "Copy takes Out(to) and In(from), of elements of one type");
    return 0;
  }

  // Sets every element to `value`; elements of 1, 2 or 4 bytes, or of 8 whose
  // value has two equal halves, as 0 has. Address and value are arguments; the
  // number and the size of the elements are not, the driver may refuse to
  // change them in a graph. The value converts as a launch's arguments do.
  template <typename T, typename V = T>
  uint32_t Fill(native::Annotated<T, false, true> to, const V& value) {
    constexpr bool kFits =
        std::is_trivially_copyable_v<T> &&
        (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
    static_assert(kFits,
                  "Fill takes elements of 1, 2, 4 or 8 bytes that are copied "
                  "as bytes: fill larger ones by their parts");
    if constexpr (kFits && native::AssertConverts<T, V>()) {
      const auto converted = native::Convert<T>(value);
      const uint32_t launch = record_->AddFill(
          to.data, to.count, engine::ParamType::Of<T>(), &converted.value);
      if (!converted.is_exact) [[unlikely]]
        RefuseValue<T>(1, value);
      return launch;
    }
    return 0;
  }
  template <native::NoOut To, typename V>
  uint32_t Fill(const To&, const V&) {
    static_assert(native::kNever<To>,
                  "Fill takes Out(to) and the value of an element");
    return 0;
  }

  // What is behind it in the batch waits for the event. The event may be
  // another one each time; its batch must have been submitted before this one
  // (else Submit gives kFailedPrecondition). Keeps its place in the program's
  // order.
  REPRISE_EXPORT uint32_t Wait(const Event& event);
  // The point behind all launches so far, to be waited for once this batch was
  // submitted; of a plan, the point of its latest launch. Keeps its place.
  REPRISE_EXPORT Result<Event> Record(Timing timing = Timing::kNone);

  // What `work(stream)`, which takes a CUstream and returns a Status or
  // nothing, gives that stream: calls of cuBLAS and other libraries as one part
  // of the batch, which keeps its place in the program's order. Where the batch
  // is launched by itself, `work` is called within Submit with the batch's
  // stream; where a graph is made (by Submit or Prepare), with a stream that is
  // being captured, so that it must do what a capture allows; where a graph is
  // replayed it is not called. One Submit may call it twice. It must not use
  // handles of the batch's stream.
  // `key` holds all that the work depends on: a batch is another one if a key
  // in it is. What the work uses beside (a library's workspace) must be there
  // as long as batches with that key are submitted, or the plan is launched.
  // On a host runtime `work` is called each time, with null; a plan keeps it.
  template <typename F>
  uint32_t Capture(const CaptureKey& key, F&& work) {
    return record_->AddCapture(&key,
                               native::CapturedWork(std::forward<F>(work)));
  }
  // Without a key nothing says that the work is the same another time: such a
  // batch is never replayed.
  template <typename F>
  uint32_t Capture(F&& work) {
    return record_->AddCapture(nullptr,
                               native::CapturedWork(std::forward<F>(work)));
  }

  // A hit of an earlier batch with the same launches (arguments apart) patches
  // what differs and launches one graph; else every launch is made by itself,
  // and a graph is built in the background once the batch has come twice. What
  // the driver does not let a graph have is launched by itself, too.
  // While the stream is being captured by the program, every launch is made by
  // itself, into the capture. kInvalidArgument names the launch and what is
  // wrong with it; kFailedPrecondition where the batch was submitted before.
  // Order: after all that the stream was given before.
  REPRISE_EXPORT Status Submit();

  // Builds the graph now, in place of submitting, for a caller who knows what
  // changes from launch to launch. Waits for compilers.
  REPRISE_EXPORT Result<Plan> Prepare();

 private:
  // One argument into its place.
  template <typename P, typename A>
  void Put(std::byte* place, size_t& index, const A& argument) {
    if constexpr (native::kIsBuffer<A>) {
      static_assert(native::kNever<A>,
                    "a Buffer does not say what the launch does with it: give "
                    "In(buffer), Out(buffer) or InOut(buffer)");
    } else if constexpr (native::kIsAnnotated<A>) {
      constexpr bool kFits = std::is_convertible_v<decltype(argument.data), P>;
      static_assert(kFits,
                    "In gives a pointer to const, Out and InOut one that is "
                    "not; the kernel's parameter must take it");
      if constexpr (kFits) {
        record_->AddAccess(argument.data, argument.count,
                           sizeof(*argument.data), A::kWritten, index);
        const P value = argument.data;
        std::memcpy(place, &value, sizeof value);
      }
    } else if constexpr (std::is_pointer_v<P> && !std::is_pointer_v<A>) {
      static_assert(native::kNever<A>, "a pointer parameter takes a pointer");
    } else {
      if constexpr (native::AssertConverts<P, A>()) {
        const auto converted = native::Convert<P>(argument);
        if (!converted.is_exact) [[unlikely]]
          RefuseValue<P>(index, argument);
        if constexpr (std::is_pointer_v<P>) {
          record_->AddPointer(converted.value, index);
        }
        std::memcpy(place, &converted.value, sizeof converted.value);
      }
    }
    ++index;
  }

  template <typename P, typename A>
  void RefuseValue(size_t index, const A& argument) {
    if constexpr (native::kIsNumber<A>) {
      record_->RefuseValue(
          index, static_cast<long double>(native::NumberOf(argument)),
          !std::is_floating_point_v<A>, engine::ParamType::Of<P>());
    }
  }

  // Once.
  Status Use();

  std::shared_ptr<native::StreamCore> stream_;
  std::unique_ptr<engine::BatchRecord> record_;
  // Submitted, prepared or moved from: Submit tells of what is launched now.
  bool is_used_ = false;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_BATCH_H_
