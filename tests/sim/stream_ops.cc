#include "tests/sim/stream_ops.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/sim/interpreter.h"

namespace reprise::sim {
namespace {

using engine::Block;
using engine::ResultSpec;
using engine::ResultView;

constexpr size_t kMostInputs = 3;

std::vector<size_t> LengthsOf(const std::vector<StreamTensor>& tensors) {
  std::vector<size_t> lengths;
  for (const StreamTensor& tensor : tensors) lengths.push_back(tensor.length());
  return lengths;
}

// Runs kernels at once, on memory of results that are there already.
class HostSink : public OpSink {
 public:
  HostSink(SimulatedMemory* memory, std::span<const uint64_t> results)
      : memory_(memory), results_(results) {}

  uint64_t Result(size_t index, size_t) override { return results_[index]; }
  uint64_t Temporary(size_t size_bytes) override {
    return memory_->Allocate(size_bytes);
  }
  void FreeTemporary(uint64_t address) override { memory_->Free(address); }
  void Fill(uint64_t to, unsigned char byte, size_t size_bytes) override {
    std::byte* target = SimulatedGpu::Access(to, size_bytes);
    if (target != nullptr) std::memset(target, byte, size_bytes);
  }
  void Copy(uint64_t to, uint64_t from, size_t size_bytes) override {
    Write(to, SimulatedGpu::Access(from, size_bytes), size_bytes);
  }
  void Write(uint64_t to, const void* from, size_t size_bytes) override {
    std::byte* target = SimulatedGpu::Access(to, size_bytes);
    if (target == nullptr || from == nullptr) return;
    std::memmove(target, from, size_bytes);
  }
  void Scale(uint64_t out, uint32_t length, uint32_t attribute,
             uint64_t a) override {
    DoScale({out, length, 0, a, attribute});
  }
  void Draw(uint64_t out, uint32_t length, uint64_t a,
            const engine::GeneratorState& at) override {
    DoDraw(out, length, a, {at.seed, at.offset, 0, 0});
  }
  void Each(uint64_t out, uint32_t length, uint64_t a,
            std::span<const uint32_t> numbers) override {
    for (const uint32_t number : numbers) {
      Scale(out, length, number, std::exchange(a, out));
    }
  }
  void Combine(uint64_t out, uint32_t length, uint64_t a, uint64_t b,
               uint32_t b_length) override {
    DoCombine(out, length, a, b, b_length);
  }
  void Fold(uint64_t out, uint64_t a, uint32_t length) override {
    DoFold(out, a, length);
  }

 private:
  SimulatedMemory* memory_;
  std::span<const uint64_t> results_;
};

// Enqueues on the device what eager does, in memory of eager's.
class EagerSink : public OpSink {
 public:
  EagerSink(SimulatedGpu* gpu, const ModelKernels* kernels,
            SimulatedMemory* memory, StreamFrontend* frontend, uint32_t op)
      : gpu_(gpu),
        kernels_(kernels),
        memory_(memory),
        frontend_(frontend),
        op_(op) {}

  uint64_t Result(size_t, size_t size_bytes) override {
    const uint64_t address = frontend_->AllocateForOp(size_bytes);
    results.emplace_back(
        new StreamStorage(frontend_->Adopt(address), size_bytes), 0,
        size_bytes / 4);
    return address;
  }
  uint64_t Temporary(size_t size_bytes) override {
    return frontend_->AllocateForOp(size_bytes);
  }
  void FreeTemporary(uint64_t address) override { memory_->Free(address); }
  uint64_t Workspace() override { return frontend_->Workspace(); }
  uint32_t Bring() override { return ++frontend_->brought; }
  void Fill(uint64_t to, unsigned char byte, size_t size_bytes) override {
    gpu_->Fill(to, byte, size_bytes);
  }
  void Copy(uint64_t to, uint64_t from, size_t size_bytes) override {
    gpu_->Copy(to, from, size_bytes);
  }
  void Write(uint64_t to, const void* from, size_t size_bytes) override {
    gpu_->Write(to, from, size_bytes);
  }
  void Scale(uint64_t out, uint32_t length, uint32_t attribute,
             uint64_t a) override {
    gpu_->Launch(kernels_->scale,
                 ScaleParams{out, length, op_ * 0x01020304u, a, attribute});
  }
  // What nobody writes is another stale address each time, of memory of the
  // op's, but for its lowest byte.
  void Draw(uint64_t out, uint32_t length, uint64_t a,
            const engine::GeneratorState& at) override {
    const uint64_t stale = (op_ % 2 == 0 ? out : a) & ~uint64_t{0xFF};
    gpu_->Launch(kernels_->draw, out, length, a,
                 DrawState{at.seed, at.offset, 0, stale});
  }
  void Each(uint64_t out, uint32_t length, uint64_t a,
            std::span<const uint32_t> numbers) override {
    EachParams params;
    std::ranges::fill(params.numbers, op_ * 0x01020304u);
    params.out = out;
    params.length = length;
    while (!numbers.empty()) {
      params.a = std::exchange(a, out);
      params.count = static_cast<uint32_t>(
          std::min<size_t>(kNumbersALaunch, numbers.size()));
      std::ranges::copy(numbers.first(params.count), params.numbers);
      gpu_->Launch(kernels_->each, params);
      numbers = numbers.subspan(params.count);
    }
  }
  void Combine(uint64_t out, uint32_t length, uint64_t a, uint64_t b,
               uint32_t b_length) override {
    gpu_->Launch(kernels_->combine, out, length, a, b, b_length);
  }
  void Fold(uint64_t out, uint64_t a, uint32_t length) override {
    gpu_->Launch(kernels_->fold, out, a, length);
  }

  std::vector<StreamTensor> results;

 private:
  SimulatedGpu* gpu_;
  const ModelKernels* kernels_;
  SimulatedMemory* memory_;
  StreamFrontend* frontend_;
  uint32_t op_;
};

// A recorded call of the host executor.
class StreamCall : public engine::Call {
 public:
  StreamCall(SimulatedMemory* memory, FailingCalls* calls,
             ModelGenerator* generator, OpKind kind,
             std::vector<size_t> lengths, std::vector<uint32_t> numbers)
      : memory_(memory),
        calls_(calls),
        generator_(generator),
        kind_(kind),
        lengths_(std::move(lengths)),
        numbers_(std::move(numbers)) {}

  void SetScalar(uint32_t scalar, uint64_t bits) override {
    numbers_[scalar] = static_cast<uint32_t>(bits);
  }
  base::Status Run(std::span<const uint64_t> operands,
                   std::span<const uint64_t> results) override {
    std::vector<OpInput> inputs;
    for (size_t i = 0; i < operands.size(); ++i) {
      inputs.push_back({operands[i], lengths_[i]});
    }
    HostSink sink(memory_, results);
    EnqueueOp(kind_, inputs, numbers_, *generator_, sink);
    // As an op that raises when it has written already.
    if (calls_->Fails("a call")) {
      return base::Fail(base::Code::kInternal, "told to fail");
    }
    return {};
  }

 private:
  SimulatedMemory* memory_;
  FailingCalls* calls_;
  ModelGenerator* generator_;
  OpKind kind_;
  std::vector<size_t> lengths_;
  std::vector<uint32_t> numbers_;
};

}  // namespace

// --- Storages ---------------------------------------------------------------

namespace {

// Kept, and out of bounds until it is used again.
std::vector<void*>& FreeStorages() {
  static auto* const free = new std::vector<void*>;
  return *free;
}

}  // namespace

void* StreamStorage::operator new(size_t size) {
  std::vector<void*>& free = FreeStorages();
  if (free.empty()) return ::operator new(size);
  void* storage = free.back();
  free.pop_back();
  ASAN_UNPOISON_MEMORY_REGION(storage, size);
  return storage;
}

void StreamStorage::operator delete(void* storage, size_t size) {
  ASAN_POISON_MEMORY_REGION(storage, size);
  FreeStorages().push_back(storage);
}

// --- The frontend ----------------------------------------------------------

StreamFrontend::StreamFrontend(SimulatedGpu* gpu, SimulatedMemory* memory,
                               CUstream stream, Fault fault)
    : gpu_(gpu),
      memory_(memory),
      stream_(stream),
      fault_(fault),
      own_pool_(memory->NewPool()),
      pool_(own_pool_) {}

std::string StreamFrontend::OpName(engine::OpId op) const {
  const auto kind = static_cast<OpKind>(op);
  // The name by which unwritten results are known.
  if (kind == OpKind::kEmpty) return "aten::empty";
  return std::string("model::") + TraitsOf(kind).name;
}

bool StreamFrontend::Alive(engine::StorageToken token) const {
  return Of(token)->uses() > 0;
}

uint64_t StreamFrontend::Base(engine::StorageToken token) const {
  return Of(token)->base();
}

size_t StreamFrontend::Hold(std::span<const engine::StoragePlace> storages) {
  if (fault_ == Fault::kFreedIsHeld) return storages.size();
  size_t held = 0;
  for (const engine::StoragePlace& place : storages) {
    if (!Alive(place.storage) || Base(place.storage) != place.base) break;
    Of(place.storage)->Ref();
    ++held;
  }
  return held;
}

void StreamFrontend::Drop(std::span<const engine::StoragePlace> storages) {
  if (fault_ == Fault::kFreedIsHeld) return;
  for (const engine::StoragePlace& place : storages) Of(place.storage)->Unref();
}

base::Result<Block> StreamFrontend::Allocate(size_t size_bytes) {
  if (fault_ == Fault::kOutputTwice && lent_twice_ != 0 &&
      memory_->SizeOf(lent_twice_) >= size_bytes) {
    return Block(lent_twice_, nullptr, [](void*) {});
  }
  const uint64_t address = memory_->Allocate(size_bytes, pool_);
  if (fault_ == Fault::kOutputTwice && size_bytes < 2048) {
    lent_twice_ = address;
  }
  return Adopt(address);
}

base::Status StreamFrontend::BeginPrivatePool(uint64_t) {
  pool_ = memory_->NewPool();
  return {};
}

bool StreamFrontend::MoveGenerator(const engine::GeneratorState& from,
                                   const engine::GeneratorState& to) {
  if (fault_ == Fault::kGeneratorStays) return true;
  const bool unlooked = fault_ == Fault::kGeneratorUnlooked;
  if (!unlooked && generator->state != from) return false;
  generator->state =
      unlooked ? generator->state.After(to.offset - from.offset) : to;
  return true;
}

std::unique_ptr<engine::KeptGenerator> StreamFrontend::KeepGenerator() {
  struct Kept : engine::KeptGenerator {
    explicit Kept(ModelGenerator* generator)
        : generator(*generator), state(generator->state) {}
    void PutBack() const override { generator.state = state; }
    ModelGenerator& generator;
    const engine::GeneratorState state;
  };
  if (!calls_draw || fault_ == Fault::kGeneratorStays) return nullptr;
  return std::make_unique<Kept>(generator);
}

std::vector<engine::Allocation> StreamFrontend::TakeAllocations() {
  std::vector<engine::Allocation> noted = std::move(*noted_);
  noted_.reset();
  return noted;
}

uint64_t StreamFrontend::AllocateForOp(size_t size_bytes) {
  const uint64_t address = memory_->Allocate(size_bytes, pool_);
  if (noted_.has_value()) noted_->push_back({address, size_bytes});
  gpu_->streams.Enqueue(stream_, [address, size_bytes] {
    std::memset(reinterpret_cast<void*>(address), SimulatedMemory::kPoison,
                size_bytes);
  });
  return address;
}

base::Result<std::shared_ptr<engine::MemoryWatch>>
StreamFrontend::WatchMemory() {
  if (fault_ == Fault::kClearsUntold) return nullptr;
  return memory_->Watch();
}

uint64_t StreamFrontend::Workspace() {
  if (workspace_ == 0) workspace_ = AllocateForOp(kWorkspaceBytes);
  return workspace_;
}

void StreamFrontend::ClearWorkspace() {
  if (workspace_ != 0) memory_->Free(std::exchange(workspace_, 0));
}

Block StreamFrontend::Adopt(uint64_t address) {
  struct Lent {
    SimulatedMemory* memory;
    uint64_t address;
  };
  return Block(address, new Lent{memory_, address}, [](void* context) {
    const std::unique_ptr<Lent> lent(static_cast<Lent*>(context));
    lent->memory->Free(lent->address);
  });
}

// --- Ops -------------------------------------------------------------------

struct StreamOps::Shown {
  Shown(OpKind kind, const std::vector<StreamTensor>& inputs,
        uint32_t attribute, Fault fault) {
    const OpTraits& traits = TraitsOf(kind);
    words = {static_cast<uint64_t>(kind), inputs.size()};
    const bool hidden = fault == Fault::kAttributeNotInKey &&
                        kind != OpKind::kRaise && kind != OpKind::kDraw &&
                        kind != OpKind::kFill;
    for (const uint32_t number : NumbersOf(kind, attribute)) {
      numbers.push_back({static_cast<uint32_t>(words.size()),
                         engine::NumberType::kInt32, hidden ? 0 : number});
      words.push_back(numbers.back().bits);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const StreamTensor& input = inputs[i];
      words.push_back(input.length());
      words.push_back(input.address() % 16);
      sizes[i] = static_cast<int64_t>(input.length());
      engine::Operand& operand = operands.emplace_back();
      // The first operand stands for all.
      const StreamTensor& told =
          fault == Fault::kOperandNotInKey && kind == OpKind::kCombine
              ? inputs[0]
              : input;
      operand.storage = told.storage();
      operand.base = told.storage()->base();
      operand.offset_bytes = 4 * told.offset();
      operand.storage_bytes = told.storage()->size_bytes();
      operand.element_bytes = 4;
      operand.sizes = {&sizes[i], 1};
      operand.strides = {&kStride, 1};
      operand.written = i == 0 && traits.writes_first;
    }
    view.op = static_cast<engine::OpId>(kind);
    view.words = words;
    view.operands = operands;
    if (HasNumber(kind)) view.scalars = numbers;
    view.cut = traits.cut;
    view.may_use_generator = kind == OpKind::kDraw;
    view.by_eager = kind == OpKind::kBring;
    view.leaves_unwritten = kind == OpKind::kEmpty;
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

  static constexpr int64_t kStride = 1;

  std::vector<uint64_t> words;
  std::vector<engine::Operand> operands;
  std::vector<engine::Scalar> numbers;
  int64_t sizes[kMostInputs] = {};
  engine::OpView view;
};

StreamTensor StreamOps::New(size_t length) {
  const uint64_t address = parts_.frontend->AllocateForOp(4 * length);
  return Tensor(new StreamStorage(parts_.frontend->Adopt(address), 4 * length),
                0, length);
}

std::vector<StreamTensor> StreamOps::Eager(OpKind kind,
                                           const std::vector<Tensor>& inputs,
                                           uint32_t attribute) {
  if (kind == OpKind::kRaise && attribute == 1) throw OpRaised();
  if (OverlapsItself(kind, inputs)) throw OpRaised();
  if (kind == OpKind::kHalf) {
    const Tensor& a = inputs[0];
    const size_t half = a.length() / 2;
    return {Tensor(a.storage(), a.offset() + half, a.length() - half)};
  }
  if (kind == OpKind::kRead) {
    std::vector<uint32_t> words(inputs[0].length());
    parts_.gpu->Read(words.data(), inputs[0].address(), 4 * words.size());
    return {};
  }
  std::vector<OpInput> operands;
  for (const Tensor& input : inputs) {
    operands.push_back({input.address(), input.length()});
  }
  EagerSink sink(parts_.gpu, parts_.kernels, parts_.memory, parts_.frontend,
                 ++eager_ops_);
  EnqueueOp(kind, operands, NumbersOf(kind, attribute), generator, sink);
  if (kind == OpKind::kInto) return {inputs[0]};
  if (kind == OpKind::kSplit) {
    const Tensor whole = sink.results[0];
    const size_t half = whole.length() / 2;
    const size_t length = std::max<size_t>(half, 1);
    return {Tensor(whole.storage(), 0, length),
            Tensor(whole.storage(), half, length)};
  }
  return std::move(sink.results);
}

std::vector<StreamTensor> StreamOps::Followed(const std::vector<Tensor>& inputs,
                                              const engine::TracedOp& op) {
  std::vector<Tensor> results;
  std::vector<std::pair<engine::ValueId, StreamStorage*>> made;
  for (const ResultSpec& spec : op.results) {
    if (spec.kind == ResultSpec::Kind::kOperand) {
      results.push_back(inputs[spec.operand]);
      continue;
    }
    StreamStorage* storage = nullptr;
    for (const auto& [value, one] : made) {
      if (value == spec.value) storage = one;
    }
    if (storage == nullptr) {
      Block block = parts_.session->TakeBlock(spec.value);
      if (parts_.fault == Fault::kIgnoredLease) {
        const Block::Parts taken = block.Detach();
        if (taken.release != nullptr) taken.release(taken.context);
        block = Block(taken.address, nullptr, [](void*) {});
      }
      storage = new StreamStorage(std::move(block), spec.storage_bytes);
      made.emplace_back(spec.value, storage);
      parts_.session->Own(spec.value, storage);
    }
    results.emplace_back(storage, spec.offset_bytes / 4,
                         static_cast<size_t>(spec.sizes[0]));
  }
  return results;
}

void StreamOps::Leave(const Shown& shown, OpKind kind,
                      const std::vector<Tensor>& results,
                      std::unique_ptr<engine::Call> call) {
  std::vector<ResultView> views;
  std::vector<int64_t> sizes;
  sizes.reserve(results.size());
  for (const Tensor& result : results) {
    sizes.push_back(static_cast<int64_t>(result.length()));
    ResultView& view = views.emplace_back();
    view.kind = ResultView::Kind::kTensor;
    view.operand = kind == OpKind::kInto ? 0 : -1;
    view.storage = result.storage();
    view.base = result.storage()->base();
    view.offset_bytes = 4 * result.offset();
    view.storage_bytes = result.storage()->size_bytes();
    view.element_bytes = 4;
    view.sizes = {&sizes.back(), 1};
    view.strides = {&Shown::kStride, 1};
  }
  parts_.session->Lock();
  parts_.session->Leave(shown.view, views, std::move(call));
  parts_.session->Unlock();
}

std::vector<StreamTensor> StreamOps::Told(
    const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> told = inputs;
  for (const auto& [view, original] : aliases_) {
    std::replace(told.begin(), told.end(), view, original);
  }
  return told;
}

bool StreamOps::Foretells(const Shown& shown) const {
  // Which ones: another number for each op.
  return shown.view.cut == nullptr &&
         (ops_ * 0x9e3779b97f4a7c15 >> 32) % 100 < foretold_percent;
}

std::shared_ptr<const engine::Program> StreamOps::Foretell(const Shown& shown) {
  const auto due = parts_.session->following();
  if (due.program == nullptr) return nullptr;
  const engine::TracedOp& op = due.program->trace->ops[due.next_op];
  if (op.op != shown.view.op || op.by_eager ||
      !due.program->effects.tells_places(due.next_op) ||
      !std::ranges::equal(op.words, shown.view.words)) {
    return nullptr;
  }
  std::vector<scheduler::Session::Operand> operands;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    operands.push_back({op.operands[i], shown.view.operands[i]});
  }
  const uint32_t followed =
      parts_.session->FollowUnseen({.program = due.program.get(),
                                    .next_op = due.next_op,
                                    .ops = 1,
                                    .operands = operands,
                                    .told = true},
                                   [](uint32_t) {});
  return followed == 1 ? due.program : nullptr;
}

std::vector<StreamTensor> StreamOps::Run(OpKind kind,
                                         const std::vector<Tensor>& inputs,
                                         uint32_t attribute) {
  scheduler::Session& session = *parts_.session;
  ++ops_;
  parts_.gpu->eager_stream = parts_.stream;
  if (!shows) return Eager(kind, inputs, attribute);
  const Shown shown(kind, Told(inputs), attribute, parts_.fault);
  const bool foretells = Foretells(shown);
  if (foretells) {
    parts_.before_op(&session, shown.view, /*may_wait=*/false);
    parts_.gpu->eager_stream = parts_.stream;
  }
  session.Lock();
  if (const auto program = foretells ? Foretell(shown) : nullptr) {
    const scheduler::Session::Following now = session.following();
    const size_t next =
        now.program == program ? now.next_op : program->trace->ops.size();
    std::vector<Tensor> results =
        Followed(inputs, program->trace->ops[next - 1]);
    session.Unlock();
    return results;
  }
  scheduler::Action action = session.Enter(shown.view);
  if (action == scheduler::Action::kTell) {
    session.Unlock();
    parts_.before_op(&session, shown.view, shown.view.by_eager);
    // Squashes of others have worked on streams of theirs.
    parts_.gpu->eager_stream = parts_.stream;
    session.Lock();
    action = session.EnterTold(shown.view);
  }
  switch (action) {
    case scheduler::Action::kFollow: {
      std::vector<Tensor> results = Followed(inputs, session.followed());
      session.Unlock();
      return results;
    }
    case scheduler::Action::kEager:
    case scheduler::Action::kAway:
      session.Unlock();
      return Eager(kind, inputs, attribute);
    case scheduler::Action::kCut:
      session.Unlock();
      parts_.before_op(&session, shown.view, kind == OpKind::kRead);
      // Squashes of others have worked on streams of theirs.
      parts_.gpu->eager_stream = parts_.stream;
      return Eager(kind, inputs, attribute);
    case scheduler::Action::kObserve:
    case scheduler::Action::kTell:
      break;
  }
  std::unique_ptr<engine::Call> call;
  if (session.wants_call()) {
    call = std::make_unique<StreamCall>(parts_.memory, parts_.host_calls,
                                        &generator, kind, LengthsOf(inputs),
                                        NumbersOf(kind, attribute));
  }
  session.Unlock();
  std::vector<Tensor> results;
  try {
    results = Eager(kind, inputs, attribute);
  } catch (const OpRaised&) {
    session.Lock();
    session.Abandon(shown.view);
    session.Unlock();
    throw;
  }
  Leave(shown, kind, results, std::move(call));
  return results;
}

std::function<void()> StreamOps::Begin(OpKind kind,
                                       const std::vector<Tensor>& inputs,
                                       uint32_t attribute, bool is_shown) {
  scheduler::Session& session = *parts_.session;
  scheduler::OpsUnderWay::Slot& slot = *parts_.other_thread;
  ++ops_;
  const auto work = [this, kind, inputs, attribute] {
    parts_.gpu->eager_stream = parts_.stream;
    return Eager(kind, inputs, attribute);
  };
  if (!shows || !is_shown) {
    // As a binding does for a thread whose ops no session sees.
    slot.BeginAnything();
    session.Interrupt("an op that no session sees");
    return [work, &slot] {
      work();
      slot.End();
    };
  }
  const auto shown = std::make_shared<const Shown>(kind, Told(inputs),
                                                   attribute, parts_.fault);
  parts_.gpu->eager_stream = parts_.stream;
  session.Lock();
  scheduler::Action action = session.Enter(shown->view);
  if (action == scheduler::Action::kTell) {
    session.Unlock();
    parts_.before_op(&session, shown->view, shown->view.by_eager);
    parts_.gpu->eager_stream = parts_.stream;
    session.Lock();
    action = session.EnterTold(shown->view);
  }
  if (action == scheduler::Action::kFollow) {
    (void)Followed(inputs, session.followed());
    session.Unlock();
    return [] {};
  }
  slot.Begin(shown->view.operands);
  const bool observed = action == scheduler::Action::kObserve;
  // A function object is copied.
  const auto call = std::make_shared<std::unique_ptr<engine::Call>>();
  if (observed && session.wants_call()) {
    *call = std::make_unique<StreamCall>(parts_.memory, parts_.host_calls,
                                         &generator, kind, LengthsOf(inputs),
                                         NumbersOf(kind, attribute));
  }
  session.Unlock();
  if (action == scheduler::Action::kCut) {
    parts_.before_op(&session, shown->view, /*may_wait=*/false);
  }
  return [this, work, shown, kind, observed, call, &slot] {
    const std::vector<Tensor> results = work();
    if (observed) Leave(*shown, kind, results, std::move(*call));
    slot.End();
  };
}

StreamTensor StreamOps::NewAt(const Place& place, size_t length,
                              uint32_t attribute) {
  uint64_t address = place.address;
  // The framework's allocator says what it gives away.
  if (parts_.memory->IsFree(address)) parts_.before_memory_goes();
  if (!parts_.memory->Take(address, 4 * length)) {
    address = parts_.frontend->AllocateForOp(4 * length);
  }
  StreamStorage* storage = place.storage;
  if (storage != nullptr && storage->uses() == 0) {
    storage->Revive(parts_.frontend->Adopt(address), 4 * length);
  } else {
    storage = new StreamStorage(parts_.frontend->Adopt(address), 4 * length);
  }
  Tensor made(storage, 0, length);
  if (place.storage != nullptr) place.storage->UnrefWeakly();
  parts_.gpu->eager_stream = parts_.stream;
  Eager(OpKind::kUpload, {made}, attribute);
  return made;
}

void StreamOps::WriteForeign(const Tensor& tensor, uint32_t attribute) {
  if (shows && parts_.fault != Fault::kForgottenInterrupt) {
    parts_.session->Interrupt("foreign work");
  }
  parts_.gpu->eager_stream = parts_.stream;
  Eager(OpKind::kMutate, {tensor}, attribute);
}

}  // namespace reprise::sim
