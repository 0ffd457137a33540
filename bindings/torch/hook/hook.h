// What stands between the dispatcher and an operator's kernel.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_HOOK_H_
#define REPRISE_BINDINGS_TORCH_HOOK_HOOK_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/op_registration.h>
#include <c10/core/DispatchKeySet.h>

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "bindings/torch/hook/boxed_call.h"
#include "bindings/torch/hook/encode.h"
#include "bindings/torch/hook/factory.h"
#include "bindings/torch/hook/result_maker.h"
#include "bindings/torch/hook/results.h"
#include "bindings/torch/hook/watched_op.h"
#include "bindings/torch/runtime/op_info.h"

namespace reprise::bindings {

// Everything below BackendSelect.
inline constexpr c10::DispatchKeySet kBelowHook(
    c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);

enum class HookKind : uint8_t {
  kPlain,    // the keys of its tensors say where it goes
  kFactory,  // its options do: replaces torch's kernel for BackendSelect
};

// The kernel for BackendSelect of every operator with this C++ signature; which
// one, and how its call goes on, is data. Immutable; never destroyed.
template <HookKind kKind, typename Signature>
class Hook;

template <HookKind kKind, typename R, typename... A>
class Hook<kKind, R(A...)> final : public c10::OperatorKernel {
 public:
  using Redispatch = R (*)(c10::DispatchKeySet, A...);

  Hook(const OpInfo* info, Redispatch redispatch)
      : redispatch_(redispatch), info_(info) {}

  R operator()(c10::DispatchKeySet keys, A... args) {
    c10::DispatchKeySet below;
    if constexpr (kKind == HookKind::kFactory) {
      below = FactoryKeys(args...);
    } else {
      below = keys & kBelowHook;
    }
    ThreadState& thread = t_thread_state;
    switch (ShowingOf(thread, below)) {
      case Showing::kShow:
        return Watch(thread, below, std::forward<A>(args)...);
      case Showing::kSkip:
        return Skip(below, std::forward<A>(args)...);
      case Showing::kElsewhere:
        return PassElsewhere(below, std::forward<A>(args)...);
      case Showing::kInside:
        NoteInside(*info_, below);
        break;
      case Showing::kNot:
        break;
    }
    return redispatch_(below, std::forward<A>(args)...);
  }

 private:
  [[gnu::noinline]] R Skip(c10::DispatchKeySet below, A... args) {
    const SkippedOp inside;
    return redispatch_(below, std::forward<A>(args)...);
  }

  [[gnu::noinline]] R PassElsewhere(c10::DispatchKeySet below, A... args) {
    const OpElsewhere noted;
    return redispatch_(below, std::forward<A>(args)...);
  }

  [[gnu::noinline]] R Watch(ThreadState& thread, c10::DispatchKeySet below,
                            A... args) {
    WatchedOp op(thread, *info_, below);
    ((op.call().NextArgument(), Encode(op.call(), args)), ...);
    switch (op.Enter()) {
      case WatchedOp::Step::kFollow:
        return Follow(op, args...);
      case WatchedOp::Step::kObserve:
        op.StartEager();
        if (op.wants_call()) {
          BoxedCall& boxed = op.NewBoxedCall();
          (Box(boxed, args), ...);
        }
        return Observe(op, below, std::forward<A>(args)...);
      case WatchedOp::Step::kEager:
        op.StartEager();
        break;
      case WatchedOp::Step::kPass:
        break;
    }
    return redispatch_(below, std::forward<A>(args)...);
  }

  R Observe(WatchedOp& op, c10::DispatchKeySet below, A... args) {
    ResultList list(op.call());
    if constexpr (std::is_void_v<R>) {
      redispatch_(below, std::forward<A>(args)...);
      op.Leave(list);
    } else {
      // A reference stays one.
      R result = redispatch_(below, std::forward<A>(args)...);
      if constexpr (!ReturnsReferences<R>::value) list.Add(result);
      op.Leave(list);
      return result;
    }
  }

  R Follow(WatchedOp& op, std::add_lvalue_reference_t<A>... args) {
    if constexpr (std::is_void_v<R>) {
      return;
    } else if constexpr (std::is_same_v<R, const at::Tensor&>) {
      return std::get<0>(std::tie(args...));
    } else if constexpr (ReturnsReferences<R>::value) {
      std::array<at::Tensor*, sizeof...(A)> written;
      size_t count = 0;
      const auto note = [&]<typename T>(std::type_identity<T>, auto& argument) {
        if constexpr (std::is_same_v<T, at::Tensor&>) {
          written[count++] = &argument;
        }
      };
      (note(std::type_identity<A>(), args), ...);
      return References(std::type_identity<R>(), written.data());
    } else {
      ResultMaker maker(op.session(), op.call());
      R result = maker.template Make<R>();
      if (!maker.complete()) [[unlikely]] {
        op.Unlock();
        maker.Complete(result);
      }
      return result;
    }
  }

  at::Tensor& References(std::type_identity<at::Tensor&>,
                         at::Tensor* const* written) const {
    return *written[info_->references[0]];
  }
  template <typename... T>
  std::tuple<T...> References(std::type_identity<std::tuple<T...>>,
                              at::Tensor* const* written) const {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>(*written[info_->references[I]]...);
    }
    (std::index_sequence_for<T...>());
  }

  const Redispatch redispatch_;
  const OpInfo* const info_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_HOOK_H_
