#include "engine/replay/outside_writes.h"

#include <algorithm>
#include <utility>

#include "engine/program/layout.h"
#include "engine/replay/again.h"

namespace reprise::engine {
namespace {

// Copies take the span of what is written: that much, or so many times the
// elements' own bytes.
constexpr int64_t kSpanBytes = int64_t{16} << 20;
constexpr int64_t kSpanShare = 8;

}  // namespace

bool CanCopy(const Operand& operand) {
  if (operand.sizes.size() > static_cast<size_t>(kernels::kMaxRank) ||
      std::ranges::any_of(operand.strides, [](int64_t s) { return s < 0; })) {
    return false;
  }
  const kernels::Layout layout = kernels::MakeLayout(
      operand.sizes, operand.strides, operand.element_bytes);
  return layout.span_bytes() <=
         std::max(kSpanBytes,
                  kSpanShare * layout.elements() * layout.element_bytes);
}

base::Status OutsideWrites::Begin(const TracedOp& traced, const OpView& op,
                                  const Trace& trace, Executor& executor) {
  End();
  if (traced.may_draw) generator_before_ = frontend_.KeepGenerator();
  kept_.assign(traced.operands.size(), 0);
  uint64_t bytes = 0;
  const auto place = [&bytes](uint64_t size) {
    return std::exchange(bytes, bytes + PlaceBytes(size));
  };
  std::vector<size_t> operands;
  for (size_t i = 0; i < traced.operands.size(); ++i) {
    const ValueRef& ref = traced.operands[i];
    if (!ref.written || !trace.values[ref.value].external) continue;
    Piece& piece = pieces_.emplace_back();
    piece.address = op.operands[i].address();
    piece.layout = traced.LayoutOf(i);
    const auto span_bytes = static_cast<uint64_t>(piece.layout.span_bytes());
    piece.before = place(span_bytes);
    piece.kept = place(span_bytes);
    operands.push_back(i);
  }
  if (bytes == 0) return {};
  auto copies = frontend_.Allocate(bytes);
  if (!copies) {
    End();
    return tl::unexpected<base::Error>(copies.error());
  }
  copies_ = *std::move(copies);
  for (size_t p = 0; p < pieces_.size(); ++p) {
    Piece& piece = pieces_[p];
    piece.before += copies_.address();
    piece.kept += copies_.address();
    kept_[operands[p]] = piece.kept;
    REPRISE_RETURN_IF_ERROR(
        executor.Copy(piece.before, piece.address, piece.layout));
  }
  return {};
}

base::Status OutsideWrites::Keep(Executor& executor) {
  for (const Piece& piece : pieces_) {
    REPRISE_RETURN_IF_ERROR(
        executor.Copy(piece.kept, piece.address, piece.layout));
  }
  if (generator_before_ != nullptr) {
    generator_kept_ = frontend_.KeepGenerator();
  }
  is_kept_ = true;
  return {};
}

base::Status OutsideWrites::PutBefore(Executor& executor) {
  if (generator_before_ != nullptr) generator_before_->PutBack();
  return Put(executor, &Piece::before);
}

base::Status OutsideWrites::PutKept(Executor& executor) {
  if (generator_kept_ != nullptr) generator_kept_->PutBack();
  return is_kept_ ? Put(executor, &Piece::kept) : base::Status{};
}

base::Status OutsideWrites::Put(Executor& executor, uint64_t Piece::*from) {
  const auto put = [&]() -> base::Status {
    for (const Piece& piece : pieces_) {
      REPRISE_RETURN_IF_ERROR(
          executor.Copy(piece.address, piece.*from, piece.layout));
    }
    return {};
  };
  return Again(
      put, "in a validation",
      "the program's memory could not be put right after a validation");
}

void OutsideWrites::End() {
  copies_ = Block();
  pieces_.clear();
  kept_.clear();
  generator_before_.reset();
  generator_kept_.reset();
  is_kept_ = false;
}

}  // namespace reprise::engine
