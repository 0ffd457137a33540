#include "tests/bindings/torch/fake_session.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "bindings/torch/hook/register_hooks.h"
#include "bindings/torch/runtime/op_table.h"
#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/thread_state.h"

// In place of session_source.cc.
namespace reprise::bindings {
namespace {

scheduler::Session* g_session = nullptr;
scheduler::DeviceKind g_kind = scheduler::DeviceKind::kHost;
scheduler::Skipping g_asleep;
uint64_t g_passed_over = 0;
bool g_disabled_meanwhile = false;
std::function<void(const engine::OpView&)> g_before_op;
ToldBesides g_told;

// The memory of a new tensor, as torch has allocated it.
engine::Block BlockOf(const at::Tensor& tensor) {
  c10::DataPtr data = tensor.storage().unsafeGetStorageImpl()->set_data_ptr(
      c10::DataPtr(nullptr, tensor.device()));
  const auto address = reinterpret_cast<uint64_t>(data.get());
  const c10::DeleterFnPtr release = data.get_deleter();
  return engine::Block(address, data.release_context(), release);
}

}  // namespace

std::optional<Watched> WatchedNow() {
  if (g_session == nullptr) return std::nullopt;
  return Watched{g_kind, &g_asleep};
}

void PassOver(uint64_t ops) { g_passed_over += ops; }

scheduler::Session* SessionFor(c10::Device, void*) {
  return g_disabled_meanwhile ? nullptr : g_session;
}
void BeforeOp(scheduler::Session*, const engine::OpView& op, bool,
              scheduler::HostWait&) {
  if (g_before_op) g_before_op(op);
}
bool OthersAreTold() { return g_before_op != nullptr; }
void HostHasWaited(const scheduler::HostWait&) { ++g_told.waits; }
void BeforeUnknownWrites(scheduler::Session*, const uint64_t*) {
  ++g_told.unknown_writes;
}
void TellOthers(std::function<void(const engine::OpView&)> before_op) {
  g_before_op = std::move(before_op);
  g_told = {};
}
ToldBesides Told() { return g_told; }

void NoteUnwatchedWork() { ++g_told.unwatched; }

void InterruptSession(c10::Device, void*, const char* what) {
  g_session->Interrupt(what);
}

void InterruptSessions(const char* what) { g_session->Interrupt(what); }
void InterruptAnyReplay(const char* what) { g_session->Interrupt(what); }

void Serve(scheduler::Session* session, scheduler::DeviceKind kind) {
  RegisterHooksOnce();
  g_kind = kind;
  g_session = session;
  ++g_activations;
  ++g_runtime_epoch;
  if (!g_unwatched.End()) std::abort();
}

void DisableMeanwhile() {
  g_disabled_meanwhile = true;
  ++g_activations;
  ++g_runtime_epoch;
}

void StopServing() {
  g_before_op = nullptr;
  g_disabled_meanwhile = false;
  g_unwatched.Begin();
  g_session = nullptr;
  if (!g_asleep.End()) std::abort();
  ++g_activations;
  ++g_runtime_epoch;
}

void FallAsleep() {
  g_asleep.Begin();
  g_passed_over = 0;
}
uint64_t PassedOver() { return g_passed_over; }
void WakeUp() {
  if (!g_asleep.End()) std::abort();
}

FakeSession::FakeSession(scheduler::DeviceKind kind) : kind_(kind) {
  Serve(this, kind);
}
FakeSession::~FakeSession() { StopServing(); }

void FakeSession::Record() {
  mode_ = Mode::kRecord;
  seen_.clear();
  ops_.clear();
  values_.clear();
  known_.clear();
  retained_.clear();
}

engine::ValueId FakeSession::ValueOf(engine::StorageToken storage,
                                     bool* fresh) {
  const auto [it, inserted] =
      known_.try_emplace(storage, static_cast<engine::ValueId>(values_.size()));
  *fresh = inserted;
  if (inserted) {
    values_.emplace_back();
    // So that no later storage gets this token.
    auto* impl = static_cast<c10::StorageImpl*>(const_cast<void*>(storage));
    c10::raw::weak_intrusive_ptr::incref(impl);
    retained_.push_back(
        c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(impl));
  }
  return it->second;
}

void FakeSession::Follow() {
  mode_ = Mode::kFollow;
  next_ = 0;
  follows_ = 0;
}

void FakeSession::Replay() {
  Follow();
  mode_ = Mode::kReplay;
  failures_.clear();
}

at::Tensor FakeSession::Bytes(uint64_t base, uint64_t size_bytes) const {
  const DepthGuard depth;
  const at::TensorOptions options = at::TensorOptions(at::kByte).device(
      kind_ == scheduler::DeviceKind::kCuda ? at::kCUDA : at::kCPU);
  if (size_bytes == 0) return at::empty({0}, options);
  return at::from_blob(reinterpret_cast<void*>(base),
                       {static_cast<int64_t>(size_bytes)}, options)
      .clone();
}

at::Tensor FakeSession::GeneratorState() const {
  const DepthGuard depth;
  return at::globalContext()
      .defaultGenerator(kind_ == scheduler::DeviceKind::kCuda
                            ? at::Device(at::kCUDA, 0)
                            : at::Device(at::kCPU))
      .get_state();
}

bool FakeSession::RunExpected(const engine::OpView& op) {
  const engine::TracedOp& expected = ops_[next_];
  const SeenOp& seen = seen_[next_];
  if (!std::equal(op.words.begin(), op.words.end(), expected.words.begin(),
                  expected.words.end())) {
    failures_.push_back("unexpected " + OpName(op.op) + " for " + seen.name);
    return false;
  }
  if (!seen.cut.empty() || !seen.left || expected.call == nullptr) return false;
  std::vector<uint64_t> operands;
  std::vector<engine::ValueId> own;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    operands.push_back(op.operands[i].address());
    own.push_back(expected.operands[i].value);
  }
  std::vector<uint64_t> results;
  blocks_.clear();
  for (const engine::ResultSpec& spec : expected.results) {
    uint64_t address = 0;
    if (spec.kind == engine::ResultSpec::Kind::kValue &&
        std::find(own.begin(), own.end(), spec.value) == own.end() &&
        !blocks_.contains(spec.value)) {
      const DepthGuard depth;
      const at::Tensor memory =
          at::empty({static_cast<int64_t>(spec.storage_bytes)}, at::kByte);
      blocks_[spec.value] = BlockOf(memory);
      address = blocks_[spec.value].address();
    }
    results.push_back(address);
  }
  const base::Status status = expected.call->Run(operands, results);
  if (!status.has_value()) {
    failures_.push_back(status.error().message());
    return false;
  }
  return true;
}

bool FakeSession::Interrupt(const char*) {
  ++interrupts_;
  if (t_thread_state.under_way()) ++interrupts_by_noted_;
  return false;
}

scheduler::Action FakeSession::Enter(const engine::OpView& op) {
  ++entered_;
  switch (mode_) {
    case Mode::kPass:
      return op.cut == nullptr ? scheduler::Action::kEager
                               : scheduler::Action::kCut;
    case Mode::kAway:
      return scheduler::Action::kAway;
    case Mode::kFollow:
      if (next_ < ops_.size() && seen_[next_].cut.empty() &&
          std::vector<uint64_t>(op.words.begin(), op.words.end()) ==
              ops_[next_].words) {
        followed_ = &ops_[next_++];
        ++follows_;
        return scheduler::Action::kFollow;
      }
      return scheduler::Action::kEager;
    case Mode::kReplay: {
      if (next_ >= ops_.size()) return scheduler::Action::kEager;
      const bool ran = RunExpected(op);
      followed_ = &ops_[next_++];
      follows_ += ran;
      return ran ? scheduler::Action::kFollow : scheduler::Action::kEager;
    }
    case Mode::kRecord:
      break;
  }
  SeenOp& seen = seen_.emplace_back();
  seen.name = OpName(op.op);
  seen.words.assign(op.words.begin(), op.words.end());
  seen.scalars.assign(op.scalars.begin(), op.scalars.end());
  seen.operands.assign(op.operands.begin(), op.operands.end());
  seen.cut = op.cut == nullptr ? "" : op.cut;
  seen.may_use_generator = op.may_use_generator;
  seen.may_try_kernels = op.may_try_kernels;
  seen.may_trap = op.may_trap;
  seen.by_eager = op.by_eager;
  engine::TracedOp& traced = ops_.emplace_back();
  traced.op = op.op;
  traced.words = seen.words;
  before_.clear();
  generator_before_ = GeneratorState();
  for (const engine::Operand& operand : op.operands) {
    before_.push_back(Bytes(operand.base, operand.storage_bytes));
    bool fresh = false;
    engine::ValueRef& ref = traced.operands.emplace_back();
    ref.value = ValueOf(operand.storage, &fresh);
    ref.offset_bytes = operand.offset_bytes;
    ref.written = operand.written;
  }
  return scheduler::Action::kObserve;
}

void FakeSession::Leave(const engine::OpView& op,
                        std::span<const engine::ResultView> results,
                        std::unique_ptr<engine::Call> call) {
  using Kind = engine::ResultView::Kind;
  ops_.back().call = std::move(call);
  SeenOp& seen = seen_.back();
  seen.left = true;
  seen.warned = op.warned;
  seen.results.assign(results.begin(), results.end());
  CheckOperands(op);
  for (const engine::ResultView& view : results) {
    engine::ResultSpec& spec = ops_.back().results.emplace_back();
    spec.storage_bytes = view.storage_bytes;
    spec.offset_bytes = view.offset_bytes;
    spec.key_set = view.key_set;
    spec.dtype = view.dtype;
    spec.element_bytes = view.element_bytes;
    spec.version = view.version;
    spec.sizes.assign(view.sizes.begin(), view.sizes.end());
    spec.strides.assign(view.strides.begin(), view.strides.end());
    spec.host = view.host;
    spec.host_hash = view.host_hash;
    if (view.kind == Kind::kHost) {
      spec.kind = engine::ResultSpec::Kind::kHost;
    } else if (view.kind == Kind::kTensor && view.operand >= 0) {
      spec.kind = engine::ResultSpec::Kind::kOperand;
      spec.operand = static_cast<uint32_t>(view.operand);
    } else if (view.kind == Kind::kTensor) {
      spec.kind = engine::ResultSpec::Kind::kValue;
      bool fresh = false;
      spec.value = ValueOf(view.storage, &fresh);
      if (fresh) values_[spec.value] = Bytes(view.base, view.storage_bytes);
    }
  }
}

void FakeSession::CheckOperands(const engine::OpView& op) {
  const DepthGuard depth;
  const std::string& name = seen_.back().name;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const engine::Operand& operand = op.operands[i];
    // Through any operand with this storage.
    const bool written =
        std::any_of(op.operands.begin(), op.operands.end(),
                    [&](const engine::Operand& other) {
                      return other.written && other.storage == operand.storage;
                    });
    if (!written &&
        !before_[i].equal(Bytes(operand.base, operand.storage_bytes))) {
      hidden_.push_back(name + ": operand " + std::to_string(i));
    }
  }
  if (!op.may_use_generator && op.cut == nullptr &&
      !generator_before_.equal(GeneratorState())) {
    hidden_.push_back(name + ": generator");
  }
}

void FakeSession::Abandon(const engine::OpView&) {
  seen_.back().abandoned = true;
}

engine::Block FakeSession::TakeBlock(engine::ValueId value) {
  if (mode_ == Mode::kReplay) return std::move(blocks_[value]);
  const DepthGuard depth;
  return BlockOf(values_[value].clone());
}

std::vector<std::vector<char>> FakeSession::RunCall(size_t i) {
  const engine::TracedOp& op = ops_[i];
  std::vector<uint64_t> operands;
  for (const engine::Operand& operand : seen_[i].operands) {
    operands.push_back(operand.address());
  }
  std::vector<std::vector<char>> bytes;
  std::vector<uint64_t> results;
  for (const engine::ResultSpec& spec : op.results) {
    const bool value = spec.kind == engine::ResultSpec::Kind::kValue;
    bytes.emplace_back(value ? spec.storage_bytes : 0, '\x5a');
    results.push_back(value ? reinterpret_cast<uint64_t>(bytes.back().data())
                            : 0);
  }
  const base::Status status = op.call->Run(operands, results);
  if (!status.has_value()) throw std::runtime_error(status.error().message());
  return bytes;
}

}  // namespace reprise::bindings
