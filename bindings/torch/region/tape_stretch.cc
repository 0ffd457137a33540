#include "bindings/torch/region/tape_stretch.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace reprise::bindings {
namespace {

using Kind = TapeArgument::Kind;

// Needs the ops of all its calls.
void NoteDrops(const TapeRecord& tape, TapeStretch& stretch) {
  // By register, the last call that uses it, or a view of it: views are made at
  // the end, or where the stretch is cut short. Others are used behind.
  std::unordered_map<int32_t, size_t> last;
  for (size_t c = stretch.first_call; c < stretch.end_call; ++c) {
    for (const int32_t reg : tape.calls[c].last_uses) last[reg] = c;
  }
  std::unordered_set<int32_t> to_the_end;
  for (size_t c = stretch.end_call; c-- > stretch.first_call;) {
    const TapeCall& call = tape.calls[c];
    if (!call.views) continue;
    const int32_t of = call.arguments[0].registers[0];
    const auto found = last.find(of);
    if (found == last.end()) continue;
    for (const int32_t reg : call.results) {
      const auto view = last.find(reg);
      if (view == last.end() || to_the_end.contains(reg)) {
        if (reg >= 0) to_the_end.insert(of);
      } else {
        found->second = std::max(found->second, view->second);
      }
    }
  }
  for (const auto& [reg, call] : last) {
    const bool early =
        tape.MakerOf(reg) != nullptr && !to_the_end.contains(reg);
    const auto behind = std::ranges::upper_bound(stretch.calls, call);
    const auto op = static_cast<uint32_t>(behind - stretch.calls.begin());
    stretch.drops.push_back(
        {reg, early ? stretch.first_op + op - 1 : ~uint32_t{0}});
  }
  std::ranges::sort(stretch.drops, {}, &TapeStretch::Drop::op);
}

// One stretch, from a call on: how far it goes, and what its calls share with
// what stands round them.
class StretchFinder {
 public:
  StretchFinder(const TapeRecord& tape, const std::vector<AnsweredCall>& calls,
                size_t begin)
      : tape_(tape), calls_(calls), begin_(begin) {}

  // Null: it is too short.
  std::shared_ptr<const TapeStretch> Find();
  // Behind Find: the first call behind it.
  size_t end() const { return end_; }

 private:
  // These calls make it, other than those that are made first.
  bool IsInside(const TapeCall* maker) const;
  // Something it is given is made inside, or is another number each time.
  bool NeedsInside(const TapeCall& call) const;
  void GoAsFarAsOpsFollow();
  void NoteBumps(const AnsweredCall& call);
  void NoteOperands(const AnsweredCall& call);
  void NoteUsedBehind();

  const TapeRecord& tape_;
  const std::vector<AnsweredCall>& calls_;
  const size_t begin_;
  size_t end_ = 0;
  std::unordered_set<size_t> before_;
  TapeStretch stretch_;
};

bool StretchFinder::IsInside(const TapeCall* maker) const {
  if (maker == nullptr) return false;
  const auto index = static_cast<size_t>(maker - tape_.calls.data());
  return index >= begin_ && index < end_ && !before_.contains(index);
}

bool StretchFinder::NeedsInside(const TapeCall& call) const {
  return std::ranges::any_of(call.arguments, [&](const TapeArgument& argument) {
    return argument.Varies() ||
           std::ranges::any_of(argument.registers, [&](int32_t reg) {
             return reg >= 0 && IsInside(tape_.MakerOf(reg));
           });
  });
}

void StretchFinder::GoAsFarAsOpsFollow() {
  size_t last = begin_;  // behind the last op
  for (size_t c = begin_; c < calls_.size(); ++c) {
    if (c != begin_ && c == tape_.drops_gradients_at) break;
    end_ = c + 1;
    const TapeCall& call = tape_.calls[c];
    const AnsweredCall& answered = calls_[c];
    if (call.views && (answered.views || call.only_views)) continue;
    if (answered.views) {
      // Of memory that is elsewhere in each call.
      if (NeedsInside(call)) break;
      before_.insert(c);
      continue;
    }
    if (answered.program != calls_[begin_].program ||
        answered.op != stretch_.first_op + stretch_.calls.size()) {
      break;
    }
    stretch_.calls.push_back(c);
    last = c + 1;
  }
  end_ = last;
}

void StretchFinder::NoteBumps(const AnsweredCall& call) {
  for (TapeStretch::Bump bump : call.bumps) {
    // A view counts together with what it leads to.
    for (const TapeCall* maker = tape_.MakerOf(bump.reg);
         IsInside(maker) && maker->views; maker = tape_.MakerOf(bump.reg)) {
      bump.reg = maker->arguments[0].registers[0];
    }
    stretch_.bumps.push_back(bump);
  }
}

void StretchFinder::NoteOperands(const AnsweredCall& call) {
  for (const AnsweredCall::Operand& operand : call.operands) {
    TapeStretch::Given given{.reg = operand.reg,
                             .offset_bytes = {},
                             .ref = operand.ref,
                             .alignment = operand.alignment};
    const TapeCall* maker = tape_.MakerOf(operand.reg);
    // A view is at its own offset in the memory of what it leads to.
    for (; IsInside(maker) && maker->views; maker = tape_.MakerOf(given.reg)) {
      const TensorForm& form =
          tape_.registers[static_cast<size_t>(operand.reg)].form;
      given.offset_bytes = static_cast<uint64_t>(form.storage_offset) *
                           c10::elementSize(form.dtype);
      given.reg = maker->arguments[0].registers[0];
    }
    if (IsInside(maker)) continue;
    stretch_.writes |= given.ref.written;
    const auto known = std::ranges::find_if(
        stretch_.given, [&given](const TapeStretch::Given& other) {
          return other.reg == given.reg &&
                 other.offset_bytes == given.offset_bytes &&
                 other.ref.value == given.ref.value &&
                 other.ref.offset_bytes == given.ref.offset_bytes;
        });
    if (known == stretch_.given.end()) {
      stretch_.given.push_back(given);
    } else {
      known->ref.written |= given.ref.written;
    }
  }
}

void StretchFinder::NoteUsedBehind() {
  const TapeRecord::Used used = tape_.UsedBehind(begin_, end_);
  std::ranges::copy_if(stretch_.results, std::back_inserter(stretch_.wanted),
                       [&used](const TapeStretch::Result& result) {
                         return used.results.contains(result.reg);
                       });
  for (const TapeStretch::Result& result : stretch_.wanted) {
    const engine::ResultSpec& spec =
        calls_[begin_].program->trace->ops[result.op].results[result.result];
    if (spec.IsValue()) stretch_.taken.push_back(spec.value);
  }
  std::ranges::sort(stretch_.taken);
  stretch_.views = used.views;
}

std::shared_ptr<const TapeStretch> StretchFinder::Find() {
  stretch_.first_call = begin_;
  stretch_.thread = std::this_thread::get_id();
  stretch_.program = calls_[begin_].program;
  stretch_.first_op = calls_[begin_].op;
  GoAsFarAsOpsFollow();
  if (stretch_.calls.size() < kFewestOpsOfStretch) return nullptr;
  stretch_.end_call = end_;
  std::erase_if(before_, [this](size_t c) { return c >= end_; });
  stretch_.before.assign(before_.begin(), before_.end());
  std::ranges::sort(stretch_.before);
  for (const size_t c : stretch_.calls) {
    std::ranges::copy(calls_[c].results, std::back_inserter(stretch_.results));
    NoteBumps(calls_[c]);
    NoteOperands(calls_[c]);
  }
  NoteUsedBehind();
  NoteDrops(tape_, stretch_);
  return std::make_shared<const TapeStretch>(std::move(stretch_));
}

}  // namespace

TapeStretchList FindStretches(const TapeRecord& tape,
                              const std::vector<AnsweredCall>& calls) {
  TapeStretchList all;
  for (size_t begin = 0; begin < calls.size();) {
    if (calls[begin].program == nullptr) {
      ++begin;
      continue;
    }
    StretchFinder finder(tape, calls, begin);
    if (auto stretch = finder.Find()) all.push_back(std::move(stretch));
    begin = std::max(begin + 1, finder.end());
  }
  return all;
}

}  // namespace reprise::bindings
