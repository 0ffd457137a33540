#include "engine/trace/open_trace.h"

#include <algorithm>

namespace reprise::engine {

void OpenTrace::Clear(uint64_t kind) {
  hasher_ = cache::SignatureHasher();
  if (kind != 0) hasher_.Update({}, {&kind, 1});
  storages_.Clear();
  external_.clear();
  next_value_ = 0;
  ops_ = 0;
}

ValueId OpenTrace::Find(const Operand& operand) const {
  const KnownStorage* known = storages_.Find(operand.storage, operand.base);
  return known == nullptr ? kNoValue : known->value;
}

bool OpenTrace::Owns(const Operand& operand) const {
  const KnownStorage* known = storages_.Find(operand.storage, operand.base);
  return known != nullptr && !known->external;
}

bool OpenTrace::WritesExternal(const OpView& op) const {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [this](const Operand& operand) {
                       return operand.written && !Owns(operand);
                     });
}

std::span<const ValueRef> OpenTrace::Enter(const OpView& op,
                                           const cache::Signature& words) {
  form_.resize(2 * op.operands.size());
  operands_.resize(op.operands.size());
  tokens_.resize(op.operands.size());
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Operand& operand = op.operands[i];
    tokens_[i] = operand.storage;
    const auto [known, fresh] =
        storages_.FindOrAdd(operand.storage, operand.base);
    if (fresh) {
      *known = {operand.storage, operand.base, operand.address(), next_value_++,
                /*external=*/true};
      external_.push_back(true);
    }
    ValueRef& ref = operands_[i];
    ref.value = known->value;
    ref.offset_bytes = operand.address() - known->origin;
    ref.written = operand.written;
    form_[2 * i] = uint64_t{ref.value} << 1 | (known->external ? 1 : 0);
    form_[2 * i + 1] = ref.offset_bytes;
  }
  hasher_.Update(words, form_);
  ++ops_;
  return operands_;
}

std::span<const ValueId> OpenTrace::Leave(std::span<const ResultView> results,
                                          bool by_eager) {
  results_.assign(results.size(), kNoValue);
  for (size_t r = 0; r < results.size(); ++r) {
    const ResultView& result = results[r];
    if (result.kind != ResultView::Kind::kTensor || result.operand >= 0 ||
        std::find(tokens_.begin(), tokens_.end(), result.storage) !=
            tokens_.end()) {
      continue;
    }
    for (size_t s = 0; s < r; ++s) {
      if (results_[s] != kNoValue && results[s].storage == result.storage) {
        results_[r] = results_[s];
      }
    }
    if (results_[r] != kNoValue) continue;
    results_[r] = next_value_++;
    external_.push_back(by_eager);
    storages_.Put({result.storage, result.base, result.base, results_[r],
                   /*external=*/by_eager});
  }
  return results_;
}

}  // namespace reprise::engine
