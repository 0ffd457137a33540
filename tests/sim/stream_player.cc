#include "tests/sim/stream_player.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <utility>

namespace reprise::sim {
namespace {

using engine::ResultView;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

// Memory of a tensor, wherever it lies.
struct Place {
  std::byte* first = nullptr;
  const RecordedTensor* tensor = nullptr;
};

int64_t Elements(const RecordedTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.sizes) elements *= size;
  return elements;
}

void Fill(const Place& place, uint64_t hash) {
  const RecordedTensor& tensor = *place.tensor;
  const int64_t elements = Elements(tensor);
  if (elements == 0) return;
  std::vector<int64_t> index(tensor.sizes.size(), 0);
  const uint64_t words[] = {hash, ~hash};
  int64_t at = 0;
  for (int64_t n = 0; n < elements; ++n) {
    std::memcpy(place.first + at * tensor.element_bytes, words,
                tensor.element_bytes);
    for (size_t i = index.size(); i-- > 0;) {
      at += tensor.strides[i];
      if (++index[i] < tensor.sizes[i]) break;
      at -= tensor.strides[i] * tensor.sizes[i];
      index[i] = 0;
    }
  }
}

uint64_t Read(const Place& place, uint64_t hash) {
  const RecordedTensor& tensor = *place.tensor;
  if (Elements(tensor) == 0) return hash;
  int64_t last = 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  const size_t bytes = std::min<size_t>(tensor.element_bytes, sizeof(hash));
  for (const int64_t at : {int64_t{0}, last}) {
    uint64_t word = 0;
    std::memcpy(&word, place.first + at * tensor.element_bytes, bytes);
    hash = Mix(hash, word);
  }
  return hash;
}

bool IsOperands(const RecordedOp& op, const RecordedTensor& result) {
  return std::ranges::any_of(op.operands, [&](const RecordedTensor& operand) {
    return operand.storage == result.storage;
  });
}

// Of a result, which operand it is; -1: it is none.
int32_t OperandOf(const RecordedOp& op, const RecordedTensor& result) {
  for (const uint32_t i : op.written) {
    const RecordedTensor& operand = op.operands[i];
    if (operand.storage == result.storage && operand.offset == result.offset)
      return static_cast<int32_t>(i);
  }
  return -1;
}

// The results whose storages the op makes.
std::vector<const RecordedTensor*> MadeBy(const RecordedOp& op) {
  std::vector<const RecordedTensor*> made;
  for (const RecordedTensor& result : op.results) {
    if (!IsOperands(op, result)) made.push_back(&result);
  }
  return made;
}

void Compute(const RecordedOp& op, uint64_t numbers,
             std::span<std::byte* const> operands,
             std::span<std::byte* const> made) {
  uint64_t hash = Mix(op.op, numbers);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    hash = Read({operands[i], &op.operands[i]}, hash);
  }
  for (const uint32_t i : op.written) {
    Fill({operands[i], &op.operands[i]}, Mix(hash, i));
  }
  const std::vector<const RecordedTensor*> results = MadeBy(op);
  for (size_t r = 0; r < results.size(); ++r) {
    Fill({made[r], results[r]}, Mix(hash, 100 + r));
  }
}

// Of the op's arguments: numbers may be others than those in its words. One
// that draws takes the frontend's next random number.
uint64_t NumbersOf(const RecordedOp& op, std::span<const uint64_t> bits,
                   ModelFrontend& frontend) {
  std::vector<uint64_t> words = op.words;
  for (size_t i = 0; i < op.scalars.size(); ++i) {
    words[op.scalars[i].word] = bits[i];
  }
  uint64_t hash = 0;
  for (const uint64_t word : words) hash = Mix(hash, word);
  if (!op.draws) return hash;
  return Mix(hash, static_cast<uint64_t>(frontend.NextRandom()));
}

// What a session is shown of a tensor in that storage: an operand, a result.
template <typename View>
void Describe(const RecordedTensor& tensor, const ModelStorage& storage,
              View& view) {
  view.storage = &storage;
  view.base = reinterpret_cast<uint64_t>(storage.data());
  view.offset_bytes =
      static_cast<uint64_t>(tensor.offset) * tensor.element_bytes;
  view.storage_bytes = storage.elements() * sizeof(float);
  view.element_bytes = tensor.element_bytes;
  view.sizes = tensor.sizes;
  view.strides = tensor.strides;
}

std::vector<uint64_t> BitsOf(const RecordedOp& op) {
  std::vector<uint64_t> bits;
  for (const engine::Scalar& scalar : op.scalars) bits.push_back(scalar.bits);
  return bits;
}

class RecordedCall final : public engine::Call {
 public:
  RecordedCall(RecordedFrontend* frontend, const RecordedOp& op)
      : frontend_(*frontend), op_(op), bits_(BitsOf(op)) {}

  void SetScalar(uint32_t scalar, uint64_t bits) override {
    bits_.at(scalar) = bits;
  }
  base::Status Run(std::span<const uint64_t> operands,
                   std::span<const uint64_t> results) override {
    std::vector<std::byte*> of_operands;
    std::vector<std::byte*> made;
    for (const uint64_t operand : operands) {
      of_operands.push_back(reinterpret_cast<std::byte*>(operand));
    }
    const std::vector<const RecordedTensor*> all = MadeBy(op_);
    for (const RecordedTensor* tensor : all) {
      const auto r = static_cast<size_t>(tensor - op_.results.data());
      made.push_back(reinterpret_cast<std::byte*>(results[r]) +
                     tensor->offset * tensor->element_bytes);
    }
    uint64_t numbers = NumbersOf(op_, bits_, frontend_);
    if (frontend_.runs_wrongly) numbers = ~numbers;
    Compute(op_, numbers, of_operands, made);
    return {};
  }

 private:
  RecordedFrontend& frontend_;
  const RecordedOp& op_;
  std::vector<uint64_t> bits_;
};

}  // namespace

StreamPlayer::StreamPlayer(const RecordedStream* stream,
                           RecordedFrontend* frontend,
                           scheduler::Session* session)
    : stream_(*stream),
      frontend_(*frontend),
      session_(*session),
      ends_(stream->ops.size() + 1) {
  for (size_t s = 0; s < stream->storages.size(); ++s) {
    ends_[stream->storages[s].last_op].push_back(s);
  }
}

bool StreamPlayer::Step() {
  if (position_ == stream_.ops.size()) return false;
  const RecordedOp& op = stream_.ops[position_];
  for (const RecordedTensor& operand : op.operands) {
    for (const bool watched : {true, false}) (void)At(operand.storage, watched);
  }
  Show(op);
  Run(op, &plain_frontend_, /*watched=*/false);
  if (op.cut != nullptr) {
    for (const RecordedTensor& operand : op.operands) Compare(operand.storage);
  }
  // What the last pass uses is compared when it has ended.
  if (op.pass + 1 < stream_.passes) {
    for (const size_t storage : ends_[position_]) storages_.erase(storage);
  }
  ++position_;
  return true;
}

bool StreamPlayer::CompareAll() {
  for (const auto& [storage, both] : storages_) Compare(storage);
  return same_bits_;
}

void StreamPlayer::Compare(size_t storage) {
  const Storage& both = storages_.at(storage);
  if (both.watched.storage() == nullptr || both.plain.storage() == nullptr) {
    return;
  }
  same_bits_ =
      same_bits_ &&
      std::memcmp(both.watched.storage()->data(), both.plain.storage()->data(),
                  stream_.storages[storage].size_bytes) == 0;
}

ModelTensor& StreamPlayer::At(size_t storage, bool watched) {
  Storage& both = storages_[storage];
  ModelTensor& tensor = watched ? both.watched : both.plain;
  if (tensor.storage() == nullptr) tensor = Allocate(storage, watched);
  return tensor;
}

size_t StreamPlayer::ElementsOf(size_t storage) const {
  return stream_.storages[storage].size_bytes / sizeof(float) + 1;
}

ModelTensor StreamPlayer::Allocate(size_t storage, bool watched) {
  ModelFrontend& frontend = watched ? frontend_ : plain_frontend_;
  const size_t elements = ElementsOf(storage);
  // What it holds depends on nothing but which storage it is.
  ModelTensor tensor(
      new ModelStorage(*frontend.Allocate(elements * sizeof(float)), elements));
  std::fill_n(tensor.storage()->data(), elements,
              static_cast<float>(storage % 1024));
  return tensor;
}

std::byte* StreamPlayer::AddressOf(const RecordedTensor& tensor, bool watched) {
  return reinterpret_cast<std::byte*>(
             At(tensor.storage, watched).storage()->data()) +
         tensor.offset * tensor.element_bytes;
}

void StreamPlayer::Run(const RecordedOp& op, ModelFrontend* frontend,
                       bool watched) {
  std::vector<std::byte*> operands;
  std::vector<std::byte*> made;
  for (const RecordedTensor& operand : op.operands) {
    operands.push_back(AddressOf(operand, watched));
  }
  const std::vector<const RecordedTensor*> results = MadeBy(op);
  for (const RecordedTensor* result : results) {
    At(result->storage, watched) = Allocate(result->storage, watched);
  }
  for (const RecordedTensor* result : results) {
    made.push_back(AddressOf(*result, watched));
  }
  Compute(op, NumbersOf(op, BitsOf(op), *frontend), operands, made);
}

void StreamPlayer::TakeFollowed(const RecordedOp& op) {
  const std::vector<engine::ResultSpec>& specs = session_.followed().results;
  std::set<engine::ValueId> taken;
  for (size_t r = 0; r < specs.size(); ++r) {
    const engine::ResultSpec& spec = specs[r];
    if (!spec.IsValue() || !taken.insert(spec.value).second) continue;
    const size_t storage = op.results[r].storage;
    ModelTensor tensor(
        new ModelStorage(session_.TakeBlock(spec.value), ElementsOf(storage)));
    session_.Own(spec.value, tensor.storage());
    storages_[storage].watched = std::move(tensor);
  }
}

std::vector<ResultView> StreamPlayer::ResultsOf(const RecordedOp& op) {
  std::vector<ResultView> views;
  for (const RecordedTensor& result : op.results) {
    ResultView& view = views.emplace_back();
    view.kind = ResultView::Kind::kTensor;
    view.operand = OperandOf(op, result);
    Describe(result, *At(result.storage, true).storage(), view);
  }
  return views;
}

void StreamPlayer::Show(const RecordedOp& op) {
  using scheduler::Action;
  std::vector<engine::Operand> operands;
  for (const RecordedTensor& tensor : op.operands) {
    Describe(tensor, *At(tensor.storage, true).storage(),
             operands.emplace_back());
  }
  for (const uint32_t i : op.written) operands[i].written = true;
  engine::OpView view;
  view.op = op.op;
  view.words = op.words;
  view.operands = operands;
  view.scalars = op.scalars;
  view.cut = op.cut;
  view.may_use_generator = op.draws;

  session_.Lock();
  Action action = session_.Enter(view);
  if (action == Action::kTell) action = session_.EnterTold(view);
  if (action == Action::kFollow) TakeFollowed(op);
  std::unique_ptr<engine::Call> call;
  if (action == Action::kObserve && session_.wants_call()) {
    call = std::make_unique<RecordedCall>(&frontend_, op);
  }
  session_.Unlock();
  if (action == Action::kFollow) return;
  Run(op, &frontend_, /*watched=*/true);
  if (action != Action::kObserve) return;
  const std::vector<ResultView> results = ResultsOf(op);
  session_.Lock();
  session_.Leave(view, results, std::move(call));
  session_.Unlock();
}

}  // namespace reprise::sim
