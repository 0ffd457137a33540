#include "bindings/torch/region/tape_names.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/tape_ops.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

bool IsSmallOfHost(const at::Tensor& tensor) {
  return tensor.device().is_cpu() &&
         IsPlainTensor(*tensor.unsafeGetTensorImpl()) &&
         tensor.is_contiguous() &&
         tensor.nbytes() <= static_cast<size_t>(kMostContentBytes);
}

}  // namespace

int32_t TapeNames::AddInput(const at::Tensor& input, uint32_t index) {
  const auto known = known_.find(input.unsafeGetTensorImpl());
  return known != known_.end() ? known->second
                               : Add(input, Origin::kInput, index);
}

int32_t TapeNames::Add(const at::Tensor& tensor, Origin origin,
                       uint32_t index) {
  const auto reg = static_cast<int32_t>(record_.registers.size());
  TapeRegister& made = record_.registers.emplace_back();
  made.origin = origin;
  made.index = index;
  made.form = TensorForm::Of(tensor);
  const auto watched = watched_.find(tensor.unsafeGetTensorImpl());
  made.has_gradient =
      watched != watched_.end()
          ? watched->second.tensor.has_gradient
          : GradientOf(*tensor.unsafeGetTensorImpl()) != nullptr;
  known_[tensor.unsafeGetTensorImpl()] = reg;
  kept_.emplace_back(tensor.getIntrusivePtr());
  if (tensor.has_storage()) {
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    by_storage_.emplace(storage, reg);
    kept_storages_.emplace_back(tensor.storage().getWeakStorageImpl());
  }
  forms_.push_back(made.form);
  storages_.push_back(
      tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr);
  if (origin != Origin::kResult) outside_.insert(storages_.back());
  const bool may_hold = origin == Origin::kInput || tensor.requires_grad();
  if (origin != Origin::kResult && may_hold && tensor.is_leaf()) {
    gradients_.Add(tensor);
  }
  histories_.resize(record_.registers.size(), nullptr);
  NoteHistory(reg, tensor);
  return reg;
}

int32_t TapeNames::AddResult(const at::Tensor& tensor, size_t call) {
  if (!tensor.defined()) return TapeArgument::kUndefined;
  if (data_.calls.contains(call)) {
    data_.results.insert(tensor.unsafeGetTensorImpl());
  }
  const auto known = known_.find(tensor.unsafeGetTensorImpl());
  if (known != known_.end()) {
    NoteHistory(known->second, tensor);
    // An op may give it another one (transpose_).
    forms_[static_cast<size_t>(known->second)] = TensorForm::Of(tensor);
    return known->second;
  }
  const c10::TensorImpl& made = *tensor.unsafeGetTensorImpl();
  const bool is_zero = record_.pass == TapePass::kWhole &&
                       record_.level == TapeLevel::kBelowAutograd &&
                       IsZeroTensor(made);
  if (!IsPlainTensor(made) && !is_zero) {
    fault_.Refuse(Refusal::kNotOrdinaryMade);
    return TapeArgument::kUndefined;
  }
  return Add(tensor, Origin::kResult, static_cast<uint32_t>(call));
}

// Below autograd a tensor is its storage and its form: `x.data` and what
// autograd hands out in place of a result are the tensor that was made.
std::vector<int32_t> TapeNames::FindAliases(const at::Tensor& tensor) const {
  std::vector<int32_t> aliases;
  if (record_.level != TapeLevel::kBelowAutograd || !tensor.has_storage()) {
    return aliases;
  }
  const auto [begin, end] =
      by_storage_.equal_range(tensor.storage().unsafeGetStorageImpl());
  const TensorForm form = TensorForm::Of(tensor);
  for (auto it = begin; it != end; ++it) {
    const auto reg = static_cast<size_t>(it->second);
    if (record_.registers[reg].form.MayBeDataOf(form)) {
      aliases.push_back(it->second);
    }
  }
  std::ranges::sort(aliases);
  return aliases;
}

void TapeNames::AddWatchedBeside(const at::Tensor& tensor) {
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (record_.level != TapeLevel::kBelowAutograd || !tensor.defined() ||
      !tensor.has_storage() || known_.contains(impl) ||
      watched_.contains(impl) || gradients_.LeafOf(impl) != nullptr) {
    return;
  }
  const TensorForm form = TensorForm::Of(tensor);
  for (const at::Tensor& each : places_.Beside(tensor)) {
    if (!known_.contains(each.unsafeGetTensorImpl()) &&
        gradients_.LeafOf(each.unsafeGetTensorImpl()) == nullptr &&
        form.MayBeDataOf(TensorForm::Of(each))) {
      AddForeign(each);
    }
  }
  for (const at::Tensor& leaf : places_.WithGradientBeside(tensor)) {
    const at::Tensor& gradient = leaf.grad();
    if (gradient.defined() && form.MayBeDataOf(TensorForm::Of(gradient))) {
      RegisterOf(leaf, LookAt::kForm);
      RegisterOf(gradient, LookAt::kForm);
    }
  }
}

bool TapeNames::IsWhereItWas(int32_t reg, const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return true;
  const auto at = static_cast<size_t>(reg);
  const TensorForm now = TensorForm::Of(tensor);
  const TensorForm& was = forms_[at];
  return tensor.storage().unsafeGetStorageImpl() == storages_[at] &&
         now.dtype == was.dtype && now.storage_offset == was.storage_offset &&
         now.sizes == was.sizes && now.strides == was.strides;
}

void TapeNames::NoteOneOf(const at::Tensor& tensor,
                          std::span<const int32_t> aliases) {
  if (aliases.size() < 2) return;
  by_place_.insert(tensor.unsafeGetTensorImpl());
  for (const int32_t reg : aliases.subspan(1)) {
    record_.NoteAlias(aliases.front(), reg);
  }
}

bool TapeNames::IsNamedByPlace(const at::Tensor& tensor) const {
  return by_place_.contains(tensor.unsafeGetTensorImpl());
}

int32_t TapeNames::RegisterOf(const at::Tensor& tensor, LookAt look) {
  if (!tensor.defined()) return TapeArgument::kUndefined;
  const int32_t reg = Name(tensor);
  if (look == LookAt::kData && tensor.has_storage()) {
    NoteRead(tensor.storage().unsafeGetStorageImpl());
  }
  return reg;
}

void TapeNames::NoteRead(const c10::StorageImpl* storage) {
  const auto read = unread_.extract(storage);
  if (read.empty()) return;
  TapeRegister& of = record_.registers[static_cast<size_t>(read.mapped())];
  of.unread = false;
  // The host may have written it since its form was looked at.
  const auto now = of.foreign->lock();
  if (now && of.content.defined()) of.content = CopyHostTensor(*now);
}

void TapeNames::NoteCopies(std::span<const int32_t> of,
                           std::span<const c10::IValue> results) {
  if (of.empty() || of[0] < 0) return;
  const c10::StorageImpl* const storage = StorageOf(of[0]);
  ForTensors(results, [&](const at::Tensor& tensor) {
    const bool is_view = tensor.defined() && tensor.has_storage() &&
                         tensor.storage().unsafeGetStorageImpl() == storage;
    if (!is_view) NoteRead(storage);
  });
}

int32_t TapeNames::Name(const at::Tensor& tensor) {
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (tensor.has_storage() &&
      unwritten_.erase(tensor.storage().unsafeGetStorageImpl()) != 0) {
    const int32_t constant = AddForeign(tensor);  // the host has written it
    TapeRegister& added = record_.registers[static_cast<size_t>(constant)];
    added.unread = added.content.defined();
    unread_[tensor.storage().unsafeGetStorageImpl()] = constant;
    contents_.erase(
        std::ranges::remove(contents_, constant, &Content::reg).begin(),
        contents_.end());
    return constant;
  }
  if (const auto known = known_.find(impl); known != known_.end()) {
    if (!HasItsHistory(known->second, tensor)) {
      fault_.Refuse(Refusal::kOtherHistory);
    }
    if (!IsWhereItWas(known->second, tensor)) {
      fault_.Refuse(Refusal::kOtherMemory);
    }
    return known->second;
  }
  const LeafGradients::Leaf* const leaf = gradients_.LeafOf(impl);
  if (leaf != nullptr && gradients_.SharesPlace(tensor)) {
    fault_.Refuse(Refusal::kSharedGradient);
  }
  if (leaf != nullptr && watched_.contains(impl)) {
    // A call may mean it as such, or as the gradient that it is now.
    fault_.Refuse(Refusal::kGradientFromOutside);
  }
  AddWatchedBeside(tensor);
  const std::vector<int32_t> aliases = FindAliases(tensor);
  if (!aliases.empty()) {
    known_[impl] = aliases.front();
    kept_.emplace_back(tensor.getIntrusivePtr());
    if (outside_.contains(tensor.storage().unsafeGetStorageImpl())) {
      NoteOneOf(tensor, aliases);
      aliases_.emplace_back(tensor.getIntrusivePtr());
      data_.aliases.insert(impl);
    }
    return aliases.front();
  }
  if (!IsPlainTensor(*impl)) {
    const bool transformed = impl->key_set().has_any(
        c10::DispatchKeySet({c10::DispatchKey::FuncTorchBatched,
                             c10::DispatchKey::FuncTorchGradWrapper}));
    fault_.Refuse(transformed ? Refusal::kTransformedUsed
                              : Refusal::kNotOrdinaryUsed);
    return TapeArgument::kUndefined;
  }
  if (leaf != nullptr) {
    const at::Tensor holder = leaf->tensor;  // more leaves may come
    return Add(tensor, Origin::kGradient,
               static_cast<uint32_t>(RegisterOf(holder)));
  }
  return AddForeign(tensor);
}

int32_t TapeNames::AddForeign(const at::Tensor& tensor) {
  const int32_t reg = Add(tensor, Origin::kForeign, 0);
  TapeRegister& added = record_.registers[static_cast<size_t>(reg)];
  added.foreign.emplace(tensor.getIntrusivePtr());
  if (IsSmallOfHost(tensor)) {
    added.content = CopyHostTensor(*tensor.unsafeGetTensorImpl());
    contents_.push_back({reg, tensor.storage().getWeakStorageImpl()});
  }
  return reg;
}

void TapeNames::NoteHistory(int32_t reg, const at::Tensor& tensor) {
  const Node* const history = NodeOf(tensor);
  histories_[static_cast<size_t>(reg)] = history;
  if (record_.level == TapeLevel::kAboveAutograd && history != nullptr &&
      record_.registers[static_cast<size_t>(reg)].origin == Origin::kResult) {
    nodes_.push_back(tensor.grad_fn());
  }
}

bool TapeNames::HasItsHistory(int32_t reg, const at::Tensor& tensor) const {
  if (record_.level == TapeLevel::kBelowAutograd) return true;
  return NodeOf(tensor) == histories_[static_cast<size_t>(reg)] &&
         tensor.requires_grad() ==
             (histories_[static_cast<size_t>(reg)] != nullptr ||
              record_.registers[static_cast<size_t>(reg)].form.requires_grad);
}

bool TapeNames::HasHooks() const {
  return std::ranges::any_of(
      nodes_, [](const NodePtr& node) { return bindings::HasHooks(*node); });
}

bool TapeNames::IsNew(const at::Tensor& tensor) const {
  return !known_.contains(tensor.unsafeGetTensorImpl()) &&
         FindAliases(tensor).empty();
}

bool TapeNames::IsDataOfOutside(const at::Tensor& tensor) const {
  if (known_.contains(tensor.unsafeGetTensorImpl())) {
    return data_.aliases.contains(tensor.unsafeGetTensorImpl());
  }
  return !FindAliases(tensor).empty() &&
         outside_.contains(tensor.storage().unsafeGetStorageImpl());
}

bool TapeNames::WasMade(const c10::StorageImpl* storage) const {
  return by_storage_.contains(storage) && !outside_.contains(storage);
}

const TapeRegister* TapeNames::Find(const c10::TensorImpl* tensor) const {
  const auto known = known_.find(tensor);
  return known != known_.end()
             ? &record_.registers[static_cast<size_t>(known->second)]
             : nullptr;
}

void TapeNames::NoteUnwritten(const at::Tensor& tensor) {
  unwritten_.insert(tensor.storage().unsafeGetStorageImpl());
}

bool TapeNames::IsOfData(const at::Tensor& tensor) const {
  return data_.results.contains(tensor.unsafeGetTensorImpl()) ||
         IsDataOfOutside(tensor);
}

void TapeNames::NoteViews(const c10::OperatorHandle& op,
                          std::span<const c10::IValue> arguments,
                          size_t index) {
  if (GivesViews(op) && arguments[0].isTensor() &&
      arguments[0].toTensor().defined() && IsOfData(arguments[0].toTensor())) {
    data_.calls.insert(index);
  }
}

bool TapeNames::NoteWrites(const c10::OperatorHandle& op,
                           std::span<const c10::IValue> arguments) {
  ForTensors(arguments,
             [this](const at::Tensor& tensor) { AddWatchedBeside(tensor); });
  bool data = false;
  bool others = false;
  bool shared = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!Writes(op, i)) continue;
    ForTensors(arguments.subspan(i, 1), [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.has_storage()) return;
      unwritten_.erase(tensor.storage().unsafeGetStorageImpl());
      const bool is_view_of_data =
          data_.results.contains(tensor.unsafeGetTensorImpl());
      if (is_view_of_data ||
          (tensor.is_view() && IsOfData(at::Tensor(tensor._base())))) {
        shared = true;
      } else if (!IsDataOfOutside(tensor)) {
        others = true;
      } else if (tensor.unsafeGetTensorImpl()->unique_version()) {
        data = true;
      } else {  // somebody else, or a view of it, has its count, too
        shared = true;
      }
    });
  }
  if ((shared || (data && others)) && data_.written_at == 0) {
    data_.written_at = TapeFault::AskForPlace();
  }
  return data && !others;
}

void TapeNames::CheckDataWrites() {
  if (data_.written_at != 0) {
    fault_.RefuseAt(data_.written_at, Refusal::kWrittenByData);
  }
}

void TapeNames::CheckAliases(std::span<const at::Tensor> outputs) {
  // What lives on is no `.data` of one, but a tensor of its own.
  const bool lives =
      std::ranges::any_of(aliases_, [&](const WeakTensor& alias) {
        return alias.use_count() > 0 &&
               std::ranges::none_of(outputs,
                                    [&alias](const at::Tensor& output) {
                                      return output.unsafeGetTensorImpl() ==
                                             alias._unsafe_get_target();
                                    });
      });
  if (lives) fault_.Refuse(Refusal::kOutsideInOnePlace);
}

// New at each call is only what went with the call before.
void TapeNames::CheckConstants(std::span<const at::Tensor> saved) {
  std::unordered_set<const c10::StorageImpl*> of_history;
  for (const at::Tensor& tensor : saved) {
    if (tensor.has_storage()) {
      of_history.insert(tensor.storage().unsafeGetStorageImpl());
    }
  }
  for (const auto& [reg, storage] : contents_) {
    if (storage.use_count() == 0 ||
        of_history.contains(storages_[static_cast<size_t>(reg)])) {
      continue;
    }
    TapeRegister& lasting = record_.registers[static_cast<size_t>(reg)];
    lasting.content.reset();
    if (lasting.origin == Origin::kConstant) {
      fault_.Differ(
          "a tensor of the host is another one at each call, and stays");
    }
  }
  for (const TapeRegister& reg : record_.registers) {
    if (reg.origin == Origin::kForeign && !reg.content.defined() &&
        reg.foreign->use_count() == 0) {
      fault_.Refuse(Refusal::kNewAtEachCall);
    }
  }
}

}  // namespace reprise::bindings
