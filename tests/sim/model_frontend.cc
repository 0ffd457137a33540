#include "tests/sim/model_frontend.h"

#include <sys/mman.h>

#include <bit>
#include <stdexcept>

namespace reprise::sim {
namespace {

bool MakesTensor(ModelOp op) {
  return op == ModelOp::kAdd || op == ModelOp::kScale ||
         op == ModelOp::kRandom || op == ModelOp::kRaise || op == ModelOp::kSum;
}

bool WritesFirst(ModelOp op) {
  return op == ModelOp::kNegate || op == ModelOp::kMix ||
         op == ModelOp::kSumInto;
}

class ModelCall : public engine::Call {
 public:
  ModelCall(ModelFrontend* frontend, ModelOp op, float attribute,
            size_t elements)
      : frontend_(*frontend),
        op_(op),
        attribute_(attribute),
        elements_(elements) {}

  void SetScalar(uint32_t, uint64_t bits) override {
    attribute_ = std::bit_cast<float>(static_cast<uint32_t>(bits));
  }
  base::Status Run(std::span<const uint64_t> operands,
                   std::span<const uint64_t> results) override {
    std::vector<float*> inputs;
    for (uint64_t operand : operands) {
      inputs.push_back(reinterpret_cast<float*>(operand));
    }
    if (frontend_.raises == op_ || frontend_.warns == op_) {
      return base::Fail(base::Code::kFailedPrecondition, "told to refuse");
    }
    if (op_ == ModelOp::kRandom) attribute_ = frontend_.NextRandom();
    Compute(op_, inputs, attribute_,
            results.empty() ? nullptr : reinterpret_cast<float*>(results[0]),
            elements_);
    return {};
  }

 private:
  ModelFrontend& frontend_;
  ModelOp op_;
  float attribute_;
  size_t elements_;
};

class KeptDraws : public engine::KeptGenerator {
 public:
  explicit KeptDraws(ModelFrontend* frontend)
      : frontend_(*frontend), draws_(frontend->random_draws) {}
  void PutBack() const override { frontend_.random_draws = draws_; }

 private:
  ModelFrontend& frontend_;
  const uint64_t draws_;
};

}  // namespace

void Compute(ModelOp op, std::span<float* const> inputs, float attribute,
             float* out, size_t elements) {
  static std::atomic<unsigned> runs{0};
  const unsigned run = g_sums_vary ? ++runs % 5 : 0;
  const float off = 1.0f + static_cast<float>(run) * attribute;
  for (size_t i = 0; i < elements; ++i) {
    switch (op) {
      case ModelOp::kAdd:
        out[i] = inputs[0][i] + inputs[1][i];
        break;
      case ModelOp::kScale:
        out[i] = inputs[0][i] * attribute;
        break;
      case ModelOp::kNegate:
        inputs[0][i] = -inputs[0][i];
        break;
      case ModelOp::kMix:
        inputs[0][i] = inputs[0][i] * 0.5f + inputs[1][i];
        break;
      case ModelOp::kRandom:
      case ModelOp::kRaise:
        out[i] = inputs[0][i] + attribute;
        break;
      case ModelOp::kSum:
        out[i] = (inputs[0][i] + inputs[1][i]) * off;
        break;
      case ModelOp::kSumInto:
        inputs[0][i] = (inputs[0][i] + inputs[1][i]) * off;
        break;
      case ModelOp::kRead:
        break;
    }
  }
}

std::unique_ptr<engine::KeptGenerator> ModelFrontend::KeepGenerator() {
  return std::make_unique<KeptDraws>(this);
}

base::Result<engine::Block> ModelFrontend::AllocatePages(size_t size_bytes) {
  struct Pages {
    void* begin;
    size_t size_bytes;
  };
  constexpr size_t kPage = 4096;
  size_bytes = (size_bytes / kPage + 1) * kPage;
  void* begin = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) {
    return base::Fail(base::Code::kResourceExhausted, "no pages");
  }
  return engine::Block(
      reinterpret_cast<uint64_t>(begin), new Pages{begin, size_bytes},
      [](void* context) {
        const std::unique_ptr<Pages> pages(static_cast<Pages*>(context));
        // Kept, so that nobody else is given these addresses.
        mprotect(pages->begin, pages->size_bytes, PROT_NONE);
      });
}

ModelTensor ModelProgram::Make(float seed, size_t elements) {
  auto block = frontend_->Allocate(elements * sizeof(float));
  // The program gives back what it can do without, and tries again.
  if (!block) block = frontend_->Allocate(elements * sizeof(float));
  auto* storage = new ModelStorage(*std::move(block), elements);
  for (size_t i = 0; i < elements; ++i) {
    storage->data()[i] = seed + 0.25f * static_cast<float>(i);
  }
  return ModelTensor(storage);
}

ModelTensor ModelProgram::Eager(ModelOp op,
                                const std::vector<ModelTensor>& inputs,
                                float attribute) {
  if ((op == ModelOp::kRaise && attribute == 1.0f) || frontend_->raises == op) {
    throw std::runtime_error("told to raise");
  }
  if (frontend_->warns == op) ++frontend_->warnings;
  if (op == ModelOp::kRandom) {
    attribute = frontend_->NextRandom();
  }
  std::vector<float*> data;
  for (const ModelTensor& input : inputs) {
    data.push_back(input.storage()->data());
  }
  const size_t elements = inputs[0].storage()->elements();
  ModelTensor out = MakesTensor(op) ? Make(0, elements) : ModelTensor();
  Compute(op, data, attribute,
          out.storage() == nullptr ? nullptr : out.storage()->data(), elements);
  return out;
}

ModelTensor ModelProgram::Run(ModelOp op, std::vector<ModelTensor> inputs,
                              float attribute) {
  if (session_ == nullptr) return Eager(op, inputs, attribute);
  session_->Lock();
  // Weights may be longer than the first operand, which sets the size.
  const size_t elements = inputs[0].storage()->elements();
  const int64_t sizes[] = {static_cast<int64_t>(elements)};
  static constexpr int64_t kStrides[] = {1};
  const uint64_t words[] = {static_cast<uint64_t>(op), inputs.size(),
                            std::bit_cast<uint32_t>(attribute), elements};
  std::vector<engine::Operand> operands;
  for (const ModelTensor& input : inputs) {
    engine::Operand& operand = operands.emplace_back();
    operand.storage = input.storage();
    operand.base = reinterpret_cast<uint64_t>(input.storage()->data());
    operand.storage_bytes = input.storage()->elements() * sizeof(float);
    operand.element_bytes = sizeof(float);
    operand.sizes = sizes;
    operand.strides = kStrides;
  }
  operands[0].written = WritesFirst(op);
  engine::OpView view;
  view.op = static_cast<engine::OpId>(op);
  view.words = words;
  view.operands = operands;
  const engine::Scalar factor{2, engine::NumberType::kFloat32, words[2]};
  if (op == ModelOp::kScale) view.scalars = {&factor, 1};
  view.cut = op == ModelOp::kRead ? "the host looks" : nullptr;
  view.may_use_generator = op == ModelOp::kRandom;
  view.may_try_kernels = op == tries_kernels;

  scheduler::Action action = session_->Enter(view);
  if (action == scheduler::Action::kTell) {
    session_->Unlock();
    before_op(view);
    session_->Lock();
    action = session_->EnterTold(view);
  }
  switch (action) {
    case scheduler::Action::kFollow: {
      ++followed_;
      ModelTensor out;
      for (const engine::ResultSpec& spec : session_->followed().results) {
        out = ModelTensor(
            new ModelStorage(session_->TakeBlock(spec.value), elements));
        session_->Own(spec.value, out.storage());
      }
      session_->Unlock();
      return out;
    }
    case scheduler::Action::kEager:
    case scheduler::Action::kAway:
    case scheduler::Action::kTell:
      session_->Unlock();
      return Eager(op, inputs, attribute);
    case scheduler::Action::kCut:
      session_->Unlock();
      if (before_op) before_op(view);
      return Eager(op, inputs, attribute);
    case scheduler::Action::kObserve:
      ++observed_;
      break;
  }
  std::unique_ptr<engine::Call> call;
  if (session_->wants_call()) {
    call = std::make_unique<ModelCall>(frontend_, op, attribute, elements);
  }
  session_->Unlock();
  ModelTensor out;
  try {
    out = Eager(op, inputs, attribute);
  } catch (...) {
    session_->Lock();
    session_->Abandon(view);
    session_->Unlock();
    throw;
  }
  engine::ResultView result;
  if (out.storage() != nullptr) {
    result.kind = engine::ResultView::Kind::kTensor;
    result.storage = out.storage();
    result.base = reinterpret_cast<uint64_t>(out.storage()->data());
    result.storage_bytes = elements * sizeof(float);
    result.element_bytes = sizeof(float);
    result.sizes = sizes;
    result.strides = kStrides;
  }
  session_->Lock();
  view.warned = frontend_->warns == op;
  session_->Leave(view, {&result, out.storage() != nullptr ? 1u : 0u},
                  std::move(call));
  session_->Unlock();
  return out;
}

}  // namespace reprise::sim
