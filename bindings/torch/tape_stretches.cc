#include "bindings/torch/tape_stretches.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <utility>

#include "bindings/torch/plain_tensor.h"
#include "bindings/torch/result_maker.h"
#include "bindings/torch/tape_ops.h"
#include "bindings/torch/torch_frontend.h"
#include "bindings/torch/watched_op.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;
using Kind = TapeArgument::Kind;

// What a stretch is looked at for is less than so many ops take.
constexpr size_t kFewestOps = 3;
constexpr uint64_t kSeldom = 256;  // runs between two that learn

size_t At(int32_t reg) { return static_cast<size_t>(reg); }

const c10::IValue& HostValue(const engine::ResultSpec& spec) {
  return *static_cast<const c10::IValue*>(spec.host.get());
}

bool IsHostTensor(const engine::ResultSpec& spec) {
  return spec.kind == engine::ResultSpec::Kind::kHost &&
         HostValue(spec).isTensor();
}

// Without an offset, where the tensor begins in its storage.
scheduler::Session::Operand Placed(const at::Tensor& tensor,
                                   const engine::ValueRef& ref,
                                   std::optional<uint64_t> offset_bytes = {}) {
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  return {.ref = ref,
          .storage = TokenOf(storage),
          .address = BaseOf(storage) +
                     offset_bytes.value_or(
                         static_cast<uint64_t>(tensor.storage_offset()) *
                         tensor.itemsize())};
}

}  // namespace

TapeStretches::Run::Run(const Tape& tape, TapeStretches* stretches,
                        std::vector<at::Tensor>& made)
    : tape_(tape), stretches_(stretches), made_(made) {
  if (stretches == nullptr || tape.level() != TapeLevel::kBelowAutograd) return;
  for (const at::Tensor& tensor : made) {
    if (tensor.defined() && tensor.is_cuda()) {
      device_ = tensor.device().index();
      break;
    }
  }
  const std::lock_guard lock(stretches->mutex_);
  ++stretches->runs_;
  if (stretches->thread_ == std::this_thread::get_id()) {
    known_ = stretches->all_;
  } else {
    missed_ = stretches->all_ != nullptr;
  }
  learns_ = stretches->runs_ >= stretches->learns_at_;
  if (learns_) known_ = nullptr;
}

scheduler::Session* TapeStretches::Run::FindSession() {
  ThreadState& thread = t_thread_state;
  if (thread.depth != 0 || !thread.Refresh() ||
      thread.asleep->load(std::memory_order_relaxed)) {
    return nullptr;
  }
  return thread.FindSession(device_);
}

// --- Going over -----------------------------------------------------------

size_t TapeStretches::Run::GoOver(size_t call) {
  if (known_ == nullptr) return 0;
  while (next_ < known_->size() && (*known_)[next_].first_call < call) ++next_;
  if (next_ == known_->size() || (*known_)[next_].first_call != call) return 0;
  const size_t calls = GoOver((*known_)[next_++]);
  missed_ |= calls == 0;
  return calls;
}

size_t TapeStretches::Run::GoOver(const TapeStretch& stretch) {
  scheduler::Session* const session = FindSession();
  const std::shared_ptr<const engine::Program> program = stretch.program.lock();
  if (session == nullptr || program == nullptr || !FindGiven(stretch)) return 0;
  const auto kind = t_thread_state.kind;
  const auto make = [&](const TapeStretch::Result& result) {
    const engine::ResultSpec& spec =
        program->trace->ops[result.op].results[result.result];
    made_[At(result.reg)] =
        spec.IsValue()
            ? MakeResult(spec, TakeStorage(*session, spec, kind, device_), kind)
            : CopyHostTensor(*HostValue(spec).toTensor().unsafeGetTensorImpl());
  };
  auto wanted = stretch.wanted.begin();
  const auto passed = [&](uint32_t op) {
    for (; wanted != stretch.wanted.end() && wanted->op == op; ++wanted) {
      make(*wanted);
    }
  };
  size_t end = stretch.end_call;
  Tape::Used used;
  {
    const LockedSession locked(*session);
    const uint32_t followed = session->FollowUnseen(
        {.program = program.get(),
         .next_op = stretch.first_op,
         .ops = static_cast<uint32_t>(stretch.calls.size()),
         .operands = given_},
        passed);
    if (followed == 0) return 0;
    if (followed < stretch.calls.size()) {
      // The calls from there on are made, of what was gone over.
      end = stretch.calls[followed];
      used = tape_.UsedBehind(stretch.first_call, end);
      for (const TapeStretch::Result& result : stretch.results) {
        if (result.op < stretch.first_op + followed &&
            used.results.contains(result.reg) &&
            !made_[At(result.reg)].defined()) {
          make(result);
        }
      }
    }
  }
  if (end == stretch.end_call) {
    MakeViews(stretch.views);
    for (const int32_t reg : stretch.drops) made_[At(reg)].reset();
  } else {
    MakeViews(used.views);
    for (size_t c = stretch.first_call; c < end; ++c) {
      tape_.DropBehind(tape_.calls_[c], made_);
    }
  }
  return end - stretch.first_call;
}

void TapeStretches::Run::MakeViews(const std::vector<size_t>& calls) {
  for (const size_t c : calls) {
    const TapeCall& call = tape_.calls_[c];
    if (call.only_views) {
      tape_.MakeViews(call, made_);
    } else {
      tape_.Make(call, {.tensors = {}, .numbers = {}, .modes = 0}, made_,
                 stack_);
    }
  }
}

bool TapeStretches::Run::FindGiven(const TapeStretch& stretch) {
  given_.clear();
  for (const TapeStretch::Given& given : stretch.given) {
    const at::Tensor& tensor = made_[At(given.reg)];
    if (!tensor.defined()) return false;
    given_.push_back(Placed(tensor, given.ref, given.offset_bytes));
  }
  return true;
}

// --- Learning -------------------------------------------------------------

bool TapeStretches::Run::MayBeUnseen(const TapeCall& call) const {
  if (!call.read.isNone()) return false;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const TapeArgument& argument = call.arguments[i];
    if (argument.kind == Kind::kNumber) return false;
    for (const int32_t reg : argument.registers) {
      if (reg < 0) continue;
      // Its count of writes is seen outside.
      if (Writes(call.op, i) && tape_.registers_[At(reg)].outside) return false;
      // What a tensor of the host holds is a part of the op.
      if (t_thread_state.kind == scheduler::DeviceKind::kCuda &&
          !made_[At(reg)].is_cuda()) {
        return false;
      }
    }
  }
  return true;
}

bool TapeStretches::Run::FindOperands(const TapeCall& call,
                                      scheduler::Session& session) {
  for (const engine::ValueRef& ref : due_.op->operands) {
    std::optional<int32_t> found;
    for (const TapeArgument& argument : call.arguments) {
      for (const int32_t reg : argument.registers) {
        if (reg >= 0 && !found.has_value() &&
            session.IsAt(Placed(made_[At(reg)], ref))) {
          found = reg;
        }
      }
    }
    if (!found.has_value()) return false;
    due_.operands.emplace_back(*found, ref);
  }
  return true;
}

void TapeStretches::Run::LearnBefore(size_t call) {
  learned_.resize(tape_.calls_.size());
  due_ = {};
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return;
  const TapeCall& made = tape_.calls_[call];
  const bool may_be_unseen = MayBeUnseen(made);
  const LockedSession locked(*session);
  scheduler::Session::Following following = session->following();
  if (made.views && following.program != nullptr) {
    due_ = {.program = following.program,
            .index = following.next_op,
            .followed = following.followed};
  } else if (may_be_unseen && following.program != nullptr &&
             following.program->effects.foretold(following.next_op)) {
    const engine::TracedOp& op =
        following.program->trace->ops[following.next_op];
    due_ = {.program = following.program,
            .op = &op,
            .index = following.next_op,
            .followed = following.followed};
    if (op.by_eager || op.bumps_versions || op.draws || op.may_draw ||
        !FindOperands(made, *session)) {
      due_ = {};
    }
  }
}

bool TapeStretches::Run::FindResults(const TapeCall& call, Known& known) const {
  // By index, those that stand for tensors; others are numbers.
  const std::vector<engine::ResultSpec>& all = due_.op->results;
  std::vector<uint32_t> specs;
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].kind != engine::ResultSpec::Kind::kHost ||
        IsHostTensor(all[i])) {
      specs.push_back(i);
    }
  }
  const auto is_new = [&](int32_t reg) {
    return reg >= 0 && tape_.MakerOf(reg) == &call;
  };
  // What is returned by reference has no part in them.
  if (specs.empty()) return std::ranges::none_of(call.results, is_new);
  if (specs.size() != call.results.size()) return false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const engine::ResultSpec& spec = all[specs[i]];
    const int32_t reg = call.results[i];
    switch (spec.kind) {
      case engine::ResultSpec::Kind::kHost:
        if (spec.tells != engine::ResultSpec::Tells::kNothing) return false;
        if (reg >= 0) known.results.push_back({reg, due_.index, specs[i]});
        break;
      case engine::ResultSpec::Kind::kUndefined:
      case engine::ResultSpec::Kind::kOperand:
        // Else it is a register that there was before.
        if (is_new(reg)) return false;
        break;
      case engine::ResultSpec::Kind::kValue: {
        const engine::Value& value = due_.program->trace->values[spec.value];
        const bool alone =
            std::ranges::count_if(all, [&](const engine::ResultSpec& other) {
              return other.IsValue() && other.value == spec.value;
            }) == 1;
        if (value.external || value.birth_op != due_.index || !alone) {
          return false;
        }
        if (reg >= 0) known.results.push_back({reg, due_.index, specs[i]});
        break;
      }
    }
  }
  return true;
}

void TapeStretches::Run::LearnAfter(size_t call) {
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return;
  scheduler::Session::Following now;
  {
    const LockedSession locked(*session);
    now = session->following();
  }
  if (due_.op == nullptr) {
    learned_[call].views = now.followed == due_.followed &&
                           now.program == due_.program &&
                           now.next_op == due_.index;
    return;
  }
  const bool last = due_.index + 1 == due_.program->trace->ops.size();
  const bool one =
      now.followed == due_.followed + 1 &&
      (last ? now.program == nullptr
            : now.program == due_.program && now.next_op == due_.index + 1);
  Known known{.program = due_.program,
              .op = due_.index,
              .operands = std::move(due_.operands)};
  if (one && FindResults(tape_.calls_[call], known)) {
    learned_[call] = std::move(known);
  }
}

void TapeStretches::Run::End() {
  if (!learns_ && !missed_) return;
  std::shared_ptr<const All> all;
  if (learns_ && !learned_.empty()) {
    all = std::make_shared<const All>(Of(tape_, learned_));
  }
  const std::lock_guard lock(stretches_->mutex_);
  const bool learned = all != nullptr && !all->empty();
  if (learned) {
    stretches_->all_ = std::move(all);
    stretches_->thread_ = std::this_thread::get_id();
  }
  if (learns_) {
    stretches_->period_ = std::min(2 * stretches_->period_, kSeldom);
    stretches_->learns_at_ = stretches_->runs_ + stretches_->period_;
  } else if (stretches_->learns_at_ > stretches_->runs_ + 16) {
    // There is another plan, perhaps.
    stretches_->period_ = 8;
    stretches_->learns_at_ = stretches_->runs_ + 1;
  }
}

TapeStretches::All TapeStretches::Of(const Tape& tape,
                                     const std::vector<Run::Known>& calls) {
  All all;
  for (size_t begin = 0; begin < calls.size();) {
    if (calls[begin].program == nullptr) {
      ++begin;
      continue;
    }
    TapeStretch stretch{.first_call = begin,
                        .program = calls[begin].program,
                        .first_op = calls[begin].op};
    size_t end = begin;
    for (size_t c = begin; c < calls.size(); ++c) {
      if (c != begin && c == tape.drops_gradients_at_) break;
      const Run::Known& known = calls[c];
      if (known.views || tape.calls_[c].only_views) continue;
      if (known.program != calls[begin].program ||
          known.op != stretch.first_op + stretch.calls.size()) {
        break;
      }
      stretch.calls.push_back(c);
      end = c + 1;
    }
    begin = end;
    if (stretch.calls.size() < kFewestOps) continue;
    stretch.end_call = end;
    const auto inside = [&](const TapeCall* maker) {
      return maker != nullptr && maker >= &tape.calls_[stretch.first_call] &&
             maker < tape.calls_.data() + end;
    };
    for (const size_t c : stretch.calls) {
      const Run::Known& known = calls[c];
      std::ranges::copy(known.results, std::back_inserter(stretch.results));
      for (const auto& [reg, ref] : known.operands) {
        TapeStretch::Given given{.reg = reg, .offset_bytes = {}, .ref = ref};
        const TapeCall* maker = tape.MakerOf(reg);
        for (; inside(maker) && maker->views; maker = tape.MakerOf(given.reg)) {
          const TensorForm& form = tape.registers_[At(reg)].form;
          given.offset_bytes = static_cast<uint64_t>(form.storage_offset) *
                               c10::elementSize(form.dtype);
          given.reg = maker->arguments[0].registers[0];
        }
        if (inside(maker)) continue;
        const bool known_given = std::ranges::any_of(
            stretch.given, [&given](const TapeStretch::Given& other) {
              return other.reg == given.reg &&
                     other.offset_bytes == given.offset_bytes &&
                     other.ref.value == given.ref.value &&
                     other.ref.offset_bytes == given.ref.offset_bytes;
            });
        if (!known_given) stretch.given.push_back(given);
      }
    }
    const Tape::Used used = tape.UsedBehind(stretch.first_call, end);
    std::ranges::copy_if(stretch.results, std::back_inserter(stretch.wanted),
                         [&used](const TapeStretch::Result& result) {
                           return used.results.contains(result.reg);
                         });
    stretch.views = used.views;
    const auto made = [&](int32_t reg) {
      const TapeCall* const maker = tape.MakerOf(reg);
      return !inside(maker) || used.results.contains(reg) ||
             std::ranges::binary_search(
                 used.views, static_cast<size_t>(maker - tape.calls_.data()));
    };
    for (size_t c = stretch.first_call; c < end; ++c) {
      std::ranges::copy_if(tape.calls_[c].last_uses,
                           std::back_inserter(stretch.drops), made);
    }
    all.push_back(std::move(stretch));
  }
  return all;
}

}  // namespace reprise::bindings
