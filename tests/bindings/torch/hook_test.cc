// What a program sees is eager's, whether its ops are not watched, watched,
// recorded or followed.

#include "bindings/torch/hook/hook.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <functional>
#include <thread>

#include "bindings/torch/hook/register_hooks.h"
#include "bindings/torch/runtime/allocator_trace.h"
#include "bindings/torch/runtime/thread_state.h"
#include "tests/bindings/torch/fake_session.h"
#include "tests/bindings/torch/named_tensor.h"

namespace reprise::bindings {
namespace {

// What the operator reprise_test::look does besides.
std::function<void()> g_look;

using Tensors = std::vector<at::Tensor>;
using Program = std::function<Tensors()>;

void ExpectSameTensors(const Tensors& expected, const Tensors& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].defined(), actual[i].defined()) << i;
    if (!expected[i].defined()) continue;
    EXPECT_EQ(expected[i].scalar_type(), actual[i].scalar_type()) << i;
    EXPECT_EQ(expected[i].sizes(), actual[i].sizes()) << i;
    EXPECT_EQ(expected[i].strides(), actual[i].strides()) << i;
    EXPECT_EQ(expected[i].storage_offset(), actual[i].storage_offset()) << i;
    EXPECT_EQ(expected[i].key_set(), actual[i].key_set()) << i;
    if (!expected[i].is_inference()) {
      EXPECT_EQ(expected[i]._version(), actual[i]._version()) << i;
    }
    EXPECT_TRUE(expected[i].equal(actual[i])) << i;
  }
}

class HookTest : public ::testing::Test {
 protected:
  // Records `program`, follows it, and expects that nothing of it ran and that
  // the tensors are the same.
  void ExpectFollowed(const Program& program, size_t ops = 1) {
    session_.Record();
    const Tensors recorded = program();
    for (const SeenOp& seen : session_.seen()) {
      EXPECT_EQ(seen.cut, "") << seen.name;
      EXPECT_TRUE(seen.left) << seen.name;
    }
    EXPECT_EQ(session_.seen().size(), ops);
    session_.Follow();
    const Tensors followed = program();
    EXPECT_EQ(session_.follows(), ops);
    session_.Pass();
    ExpectSameTensors(recorded, followed);
  }

  FakeSession session_;
};

TEST_F(HookTest, HooksTheOperatorsOfThisTorch) {
  const HookCounts counts = RegisterHooksOnce();
  // 1559 where libtorch_cuda is loaded as well.
  EXPECT_GE(counts.unboxed, 1489u);
  EXPECT_GT(counts.boxed, 500u);
}

TEST_F(HookTest, TouchesNothingWhileDisabled) {
  session_.Record();
  StopServing();
  const auto a = at::rand({3, 4});
  ExpectSameTensors({at::add(a, a)}, {a * 2});
  EXPECT_EQ(session_.entered(), 0u);
  EXPECT_TRUE(session_.seen().empty());
}

// What an op calls by itself is no op of the stream, shown or not: times of
// both are compared by the number of ops.
TEST_F(HookTest, CountsTheSameOpsWhileItIsAsleep) {
  constexpr int kTimes = scheduler::Runtime::kOpsPassedOver;
  const auto a = at::rand({3, 4});
  const auto program = [&a] {
    for (int i = 0; i < kTimes; ++i) {
      at::add(a, a).clone();
      at::cumsum(a, 0);
      at::zeros({2, 3}).add_(1);
    }
  };
  const size_t before = session_.entered();
  program();
  const size_t shown = session_.entered() - before;
  EXPECT_GE(shown, 4u * kTimes);
  FallAsleep();
  program();
  EXPECT_EQ(session_.entered() - before, shown);
  EXPECT_EQ(PassedOver(), shown);
}

// Another runtime may have become active: its sessions find the op in the book,
// or are interrupted.
TEST_F(HookTest, LeavesOpsOfAPausedSessionToOthers) {
  const auto a = at::rand({3, 4});
  session_.GoAway();
  const size_t entered = session_.entered();
  ExpectSameTensors({at::add(a, a)}, {a * 2});
  EXPECT_GE(session_.entered(), entered + 2);
  EXPECT_GE(session_.interrupts_by_noted(), 2u);
  EXPECT_EQ(session_.interrupts_by_noted(), session_.interrupts());
  EXPECT_TRUE(BookOfOps().EmptyFor(scheduler::DeviceKind::kHost));
  // While others are told of an op, too.
  size_t told = 0;
  TellOthers([&told](const engine::OpView&) { ++told; });
  const size_t before = session_.interrupts_by_noted();
  auto b = at::zeros({4});
  b.add_(1);
  EXPECT_GT(session_.interrupts_by_noted(), before);
  EXPECT_TRUE(BookOfOps().EmptyFor(scheduler::DeviceKind::kHost));
}

// While an op runs, which reads and writes memory of the host.
template <typename Look>
void WithinAnOp(Look look) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise_test::look", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  bool looked = false;
  g_look = [&] {
    look();
    looked = true;
  };
  const at::NoGradGuard no_grad;
  op.call(at::zeros({4}));
  g_look = nullptr;
  EXPECT_TRUE(looked);
}

bool InBookOf(scheduler::DeviceKind kind) {
  return !BookOfOps().EmptyFor(kind);
}

// A runtime of the host may become active before it returns.
TEST_F(HookTest, NotesOpsOnMemoryThatIsNotServed) {
  constexpr auto kHost = scheduler::DeviceKind::kHost;
  constexpr auto kCuda = scheduler::DeviceKind::kCuda;
  WithinAnOp([] { EXPECT_TRUE(InBookOf(kHost)); });
  Serve(&session_, kCuda);
  WithinAnOp([] {
    EXPECT_TRUE(InBookOf(kHost));
    EXPECT_FALSE(InBookOf(kCuda));
    // An op within it is part of it.
    (void)at::rand({3});
    EXPECT_TRUE(InBookOf(kHost));
    EXPECT_FALSE(InBookOf(kCuda));
    EXPECT_EQ(t_thread_state.depth, 0);
    {
      const AnythingUnderWay launches;
      EXPECT_TRUE(InBookOf(kCuda));
    }
    EXPECT_FALSE(InBookOf(kCuda));
    EXPECT_TRUE(InBookOf(kHost));
  });
  EXPECT_FALSE(InBookOf(kHost));
}

// Disabled since the hook has asked: another runtime may become active before
// the op returns.
TEST_F(HookTest, NotesOpsThatHaveNoSessionAnyMore) {
  DisableMeanwhile();
  WithinAnOp([] { EXPECT_TRUE(InBookOf(scheduler::DeviceKind::kHost)); });
  EXPECT_EQ(t_thread_state.depth, 0);
  EXPECT_FALSE(InBookOf(scheduler::DeviceKind::kHost));
}

// What such an op has enqueued, no session of the runtime that is active then
// has been told of.
TEST_F(HookTest, TellsOfOpsThatEndBehindASwitch) {
  const auto unwatched = [](const auto& within) {
    TellOthers([](const engine::OpView&) {});
    WithinAnOp(within);
    return Told().unwatched;
  };
  EXPECT_EQ(unwatched([] {}), 0);
  EXPECT_EQ(unwatched([&] { Serve(&session_); }), 1);
  StopServing();
  EXPECT_EQ(unwatched([] {}), 0);
  EXPECT_EQ(unwatched([&] { Serve(&session_); }), 1);
  FallAsleep();
  EXPECT_EQ(unwatched([] {}), 0);
  EXPECT_EQ(unwatched([] { WakeUp(); }), 1);
  Serve(&session_, scheduler::DeviceKind::kCuda);
  EXPECT_EQ(unwatched([] {}), 0);
  EXPECT_EQ(unwatched([&] { Serve(&session_); }), 1);
}

TEST_F(HookTest, MakesTensors) {
  const auto a = at::rand({3, 4}), b = at::rand({3, 4});
  ExpectFollowed([&] { return Tensors{at::add(a, b)}; });
  ExpectFollowed([&] { return Tensors{at::add(a.t(), b.t())}; });
  ExpectFollowed([&] { return Tensors{at::sum(a)}; });
  ExpectFollowed([&] { return Tensors{at::empty({0, 3})}; });
  ExpectFollowed([&] { return Tensors{at::rand({70000})}; });
  ExpectFollowed([&] { return Tensors{a > b}; });
}

TEST_F(HookTest, MakesSecondResultsOverOneStorage) {
  const auto a = at::rand({6});
  // Its parts are made over one storage where the op does so itself.
  ExpectFollowed([&] {
    auto [value, index] = at::sort(a);
    return Tensors{value, index};
  });
}

TEST_F(HookTest, MakesTuplesWithUndefinedTensors) {
  const auto x = at::rand({1, 2, 5, 5}), w = at::rand({3, 2, 3, 3});
  const auto grad = at::rand({1, 3, 3, 3});
  ExpectFollowed([&] {
    auto [a, b, c] = at::convolution_backward(
        grad, x, w, at::OptionalIntArrayRef({3}), {1, 1}, {0, 0}, {1, 1}, false,
        {0, 0}, 1, {false, true, false});
    EXPECT_FALSE(a.defined());
    return Tensors{a, b, c};
  });
}

TEST_F(HookTest, MakesListsOfTensors) {
  const auto a = at::rand({3}), b = at::rand({4});
  ExpectFollowed([&] { return at::_foreach_mul({a, b}, 2.0); });
  ExpectFollowed([&] { return at::unsafe_split(at::rand({0, 4}), 2, 1); }, 2);
}

TEST_F(HookTest, MakesNothingForVoid) {
  Tensors list = {at::ones({2}), at::ones({3})};
  session_.Record();
  at::_foreach_mul_(list, 2.0);
  session_.Follow();
  at::_foreach_mul_(list, 2.0);
  EXPECT_EQ(session_.follows(), 1u);
  EXPECT_EQ(list[0].sum().item<float>(), 4);
}

TEST_F(HookTest, ReturnsTheArgumentsThatAreReferences) {
  auto a = at::ones({4});
  const auto b = at::ones({4});
  session_.Record();
  EXPECT_EQ(&a.add_(b), &a);
  session_.Follow();
  EXPECT_EQ(&a.add_(b), &a);
  EXPECT_EQ(session_.follows(), 1u);
  session_.Pass();
  EXPECT_EQ(a.sum().item<float>(), 8);

  auto values = at::empty({}), indices = at::empty({}, at::kLong);
  const auto max = [&] { return at::max_out(values, indices, b, 0); };
  session_.Record();
  max();
  session_.Follow();
  const auto [first, second] = max();
  EXPECT_EQ(session_.follows(), 1u);
  EXPECT_EQ(&first, &values);
  EXPECT_EQ(&second, &indices);

  // Here the schema marks two operands and returns the first, or the last.
  auto noise = at::zeros({4}), out = at::empty({4});
  session_.Record();
  at::rrelu_with_noise_out(out, b, noise);
  at::rrelu_with_noise_(a, noise);
  session_.Follow();
  EXPECT_EQ(&at::rrelu_with_noise_out(out, b, noise), &out);
  EXPECT_EQ(&at::rrelu_with_noise_(a, noise), &a);
  EXPECT_EQ(session_.follows(), 2u);
}

TEST_F(HookTest, MakesHostValues) {
  const auto q = at::rand({1, 2, 8, 16});
  session_.Record();
  const int64_t choice = at::_fused_sdp_choice(q, q, q);
  ASSERT_EQ(session_.seen().size(), 1u);
  ASSERT_EQ(session_.seen()[0].results.size(), 1u);
  EXPECT_EQ(session_.seen()[0].results[0].kind,
            engine::ResultView::Kind::kHost);
  session_.Follow();
  EXPECT_EQ(at::_fused_sdp_choice(q, q, q), choice);
  EXPECT_EQ(session_.follows(), 1u);
}

TEST_F(HookTest, HandsOutConjugatesAndInferenceTensorsAsEagerDoes) {
  const auto a = at::rand({4, 4}, at::kComplexFloat);
  ExpectFollowed([&] { return Tensors{at::mm(a.conj(), a)}; });
  const c10::InferenceMode guard;
  ExpectFollowed(
      [&] {
        auto result = at::add(at::ones({2}), 1.0);
        EXPECT_TRUE(result.is_inference());
        return Tensors{result};
      },
      2);
}

// Composites write what they return, and autograd counts that.
TEST_F(HookTest, HandsOutResultsWithEagersCountOfWrites) {
  const auto made = [] { return at::full({3}, 2.0); };
  EXPECT_EQ(made()._version(), 1);
  ExpectFollowed([&] { return Tensors{made()}; });
  session_.Record();
  made();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  EXPECT_EQ(made()._version(), 0);
  session_.Follow();
  EXPECT_EQ(made()._version(), 0);
  EXPECT_EQ(session_.follows(), 1u);
  ExpectFollowed([&] { return Tensors{made()}; });
}

// A pass of theirs that has begun during the wait may have read too early.
TEST_F(HookTest, TellsOthersBehindAnOpThatMayHaveWaited) {
  const auto a = at::ones({1});
  int before = 0;
  TellOthers([&before](const engine::OpView&) { ++before; });
  session_.Pass();
  at::add(a, a);
  EXPECT_EQ(before, 0);
  EXPECT_EQ(Told().waits, 0);
  EXPECT_EQ(a.item<float>(), 1);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(Told().waits, 1);
  EXPECT_EQ(Told().unknown_writes, 0);
}

TEST_F(HookTest, LetsStoragesOfResultsGrow) {
  const auto a = at::ones({4});
  session_.Record();
  at::add(a, a);
  session_.Follow();
  auto result = at::add(a, a);
  ASSERT_EQ(session_.follows(), 1u);
  session_.Pass();
  result.resize_({64});
  EXPECT_EQ(result.narrow(0, 0, 4).sum().item<float>(), 8);
}

TEST_F(HookTest, HonoursTheOptionsOfFactories) {
  ExpectFollowed([] { return Tensors{at::zeros({2}, at::kHalf)}; });
  ExpectFollowed([] { return Tensors{at::arange(5)}; });
  ExpectFollowed([] { return Tensors{at::linspace(0, 1, 5, at::kDouble)}; });
  ExpectFollowed([] { return Tensors{at::full({2, 2}, 7, at::kInt)}; });
  ExpectFollowed([] { return Tensors{at::eye(3).t()}; });
  ExpectFollowed(
      [] { return Tensors{at::ones({2}).to(at::kDouble, false, false)}; }, 2);
  session_.Record();
  EXPECT_TRUE(at::zeros({2}, at::kMeta).is_meta());
  EXPECT_TRUE(at::zeros({2, 2}, at::TensorOptions(at::kSparse)).is_sparse());
  for (const SeenOp& seen : session_.seen()) {
    EXPECT_NE(seen.name, "aten::zeros") << "of another device or layout";
  }
}

TEST_F(HookTest, CountsNestedCallsToTheOutermost) {
  const auto a = at::rand({3, 3});
  session_.Record();
  at::full({2}, 3.0);              // empty and fill_
  at::constant_pad_nd(a, {1, 1});  // empty, fill_, copy_
  ASSERT_EQ(session_.seen().size(), 2u);
  EXPECT_EQ(session_.seen()[0].name, "aten::full");
  EXPECT_EQ(session_.seen()[1].name, "aten::constant_pad_nd");
}

// Ops that no session is shown, but that use memory which sessions know.
TEST_F(HookTest, InterruptsWhereOthersUseMemoryOfItsDevice) {
  auto dense = at::zeros({4, 4});
  const auto indices = at::ones({2, 1}, at::kLong), values = at::ones({1});
  const auto sparse = at::sparse_coo_tensor(indices, values, {4, 4});
  const auto rows = sparse.to_sparse_csr();
  std::vector<std::function<void()>> programs = {
      [&] { dense.add_(sparse); },
      [&] { dense.add_(rows); },
      [&] { at::mm(sparse, dense); },
      [&] { at::quantize_per_tensor(dense, 0.5, 1, at::kQInt8).dequantize(); },
  };
  if (const auto named = NamedTensor()) {
    programs.push_back([named] { named->add_(1); });
  }
  for (size_t i = 0; i < programs.size(); ++i) {
    session_.Record();
    const size_t before = session_.interrupts();
    programs[i]();
    EXPECT_GT(session_.interrupts(), before) << i;
    // What such an op calls is part of it.
    for (const SeenOp& seen : session_.seen()) {
      EXPECT_NE(seen.name, "aten::add_.Tensor") << i;
      EXPECT_NE(seen.name, "aten::index_select") << i;
    }
  }
  session_.Pass();
  EXPECT_EQ(dense[1][1].item<float>(), 2);
}

TEST_F(HookTest, PassesOverOpsThatUseNoMemoryOfItsDevice) {
  const auto meta = at::empty({4, 4}, at::kMeta), dense = at::zeros({4});
  session_.Record();
  const size_t before = session_.interrupts();
  meta.add(meta).mul_(2.0);
  EXPECT_EQ(session_.interrupts(), before);
  at::neg(dense);
  EXPECT_EQ(session_.interrupts(), before);
}

TEST_F(HookTest, LetsExceptionsPassAndAbandonsTheirOps) {
  const auto a = at::rand({3, 3}), b = at::rand({4, 4});
  session_.Record();
  EXPECT_THROW(at::mm(a, b), c10::Error);
  ASSERT_EQ(session_.seen().size(), 1u);
  EXPECT_TRUE(session_.seen()[0].abandoned);
  EXPECT_FALSE(session_.seen()[0].left);
  EXPECT_FALSE(session_.locked());
  // The thread is not inside of anything.
  at::neg(a);
  EXPECT_EQ(session_.seen().size(), 2u);
}

// Begins to note what an op allocates, and no longer asks when the op ends, as
// a session does where ops of several threads overlap.
class ForgetfulSession final : public scheduler::Session {
 public:
  scheduler::Action Enter(const engine::OpView&) override {
    AllocatorTrace::Begin();
    open_within = t_thread_state.open_notes;
    return scheduler::Action::kObserve;
  }
  scheduler::Action EnterTold(const engine::OpView& op) override {
    return Enter(op);
  }
  bool wants_call() const override { return false; }
  void Leave(const engine::OpView&, std::span<const engine::ResultView>,
             std::unique_ptr<engine::Call>) override {}
  void Abandon(const engine::OpView&) override {}
  bool Interrupt(const char*) override { return false; }
  void InterruptIfUsed(const scheduler::MemoryRanges&, const char*) override {}
  engine::Block TakeBlock(engine::ValueId) override { return {}; }
  void Own(engine::ValueId, engine::StorageToken) override {}
  engine::GeneratorState drawn() const override { return {}; }

  size_t open_within = 0;
};

TEST_F(HookTest, LeavesNothingOpenWhateverBecomesOfAnOp) {
  const auto a = at::rand({3, 3}), b = at::rand({4, 4});
  ForgetfulSession session;
  Serve(&session);
  at::neg(a);
  EXPECT_EQ(session.open_within, 1u);
  EXPECT_EQ(t_thread_state.open_notes, 0u);
  EXPECT_THROW(at::mm(a, b), c10::Error);
  EXPECT_EQ(session.open_within, 1u);
  EXPECT_EQ(t_thread_state.open_notes, 0u);
}

TEST_F(HookTest, AbandonsOpsThatResizeWhatTheyWrite) {
  const auto a = at::rand({3, 3});
  auto out = at::empty({0});
  session_.Record();
  at::add_out(out, a, a);
  ASSERT_EQ(session_.seen().size(), 1u);
  EXPECT_TRUE(session_.seen()[0].abandoned);
  at::add_out(out, a, a);
  EXPECT_TRUE(session_.seen()[1].left);
}

TEST_F(HookTest, SeesOpsOfEveryThread) {
  const auto a = at::rand({3, 3});
  session_.Record();
  std::thread([&] { at::neg(a); }).join();
  EXPECT_EQ(session_.seen().size(), 1u);
}

TEST_F(HookTest, FindsTheSessionAgainWhenTheRuntimeChanges) {
  const auto a = at::rand({3, 3});
  session_.Record();
  at::neg(a);
  StopServing();
  Serve(nullptr);
  at::neg(a);
  EXPECT_EQ(session_.seen().size(), 1u);
  Serve(&session_);
  at::neg(a);
  EXPECT_EQ(session_.seen().size(), 2u);
}

TEST_F(HookTest, TakesNoReferenceThatTheProgramCouldCount) {
  const auto a = at::rand({3, 3});
  session_.Record();
  auto result = at::neg(a);
  EXPECT_EQ(result.use_count(), 1u);
  EXPECT_EQ(result.storage().use_count(), 1u);
  session_.Follow();
  result = at::neg(a);
  ASSERT_EQ(session_.follows(), 1u);
  EXPECT_EQ(result.use_count(), 1u);
  EXPECT_EQ(result.storage().use_count(), 1u);
  EXPECT_EQ(a.use_count(), 1u);
}

TEST_F(HookTest, WarnsOfNothing) {
  class Counter final : public c10::WarningHandler {
   public:
    void process(const c10::Warning&) override { ++count; }
    int count = 0;
  } counter;
  const c10::WarningUtils::WarningHandlerGuard guard(&counter);
  RegisterHooksOnce();
  EXPECT_EQ(counter.count, 0);
}

}  // namespace
}  // namespace reprise::bindings

TORCH_LIBRARY(reprise_test, library) {
  library.def("look(Tensor(a!) x) -> Tensor");
}
TORCH_LIBRARY_IMPL(reprise_test, CPU, library) {
  library.impl("look", [](const at::Tensor& x) {
    if (reprise::bindings::g_look) reprise::bindings::g_look();
    return x.clone();
  });
}
