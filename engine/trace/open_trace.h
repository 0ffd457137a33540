// The trace that is being watched: its signature so far and what it knows.

#ifndef REPRISE_ENGINE_TRACE_OPEN_TRACE_H_
#define REPRISE_ENGINE_TRACE_OPEN_TRACE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "cache/signature.h"
#include "engine/trace/op.h"
#include "engine/trace/storage_table.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Rolls the signature of a trace op by op and numbers its values. The only
// place where the canonical form of a trace is made: for each op its words,
// and for each operand its value and its offset within it.
// Thread-compatible. Cost: 20 to 40 ns an op.
class OpenTrace {
 public:
  // Signatures of another kind are others.
  void Clear(uint64_t kind = 0);

  // Some operand that the op writes was not made by this trace.
  bool WritesExternal(const OpView& op) const;

  // Adds an op before it runs. Returns its operands' values; those that appear
  // for the first time are externals. Valid until the next call.
  // `words` is cache::HashWords of the op's words.
  std::span<const ValueRef> Enter(const OpView& op,
                                  const cache::Signature& words);
  std::span<const ValueRef> Enter(const OpView& op) {
    return Enter(op, cache::HashWords(op.words));
  }

  // After the op ran: its results become values. One entry a result; kNoValue
  // for those that are no tensor, an operand, or share an operand's storage.
  // Results that share a storage are one value. Those of an op that eager runs
  // always are externals.
  static constexpr ValueId kNoValue = ~ValueId{0};
  std::span<const ValueId> Leave(std::span<const ResultView> results,
                                 bool by_eager = false);

  // The value that the operand lies in; kNoValue if it is none yet.
  ValueId Find(const Operand& operand) const;
  // The operand's storage was made by this trace.
  bool Owns(const Operand& operand) const;
  bool external(ValueId value) const { return external_[value]; }

  uint32_t ops() const { return ops_; }
  ValueId values() const { return next_value_; }
  const cache::Signature& signature() const { return hasher_.Value(); }

 private:
  cache::SignatureHasher hasher_;
  StorageTable storages_;
  std::vector<uint64_t> form_;
  std::vector<ValueRef> operands_;
  std::vector<StorageToken> tokens_;  // of the operands
  std::vector<ValueId> results_;
  std::vector<bool> external_;  // by value
  ValueId next_value_ = 0;
  uint32_t ops_ = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_OPEN_TRACE_H_
