// Which register of a recording stands for a tensor.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_NAMES_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_NAMES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bindings/torch/base/history.h"
#include "bindings/torch/base/tensor_form.h"
#include "bindings/torch/base/torch_versions.h"
#include "bindings/torch/region/leaf_gradients.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_record.h"
#include "bindings/torch/region/watched_places.h"

namespace reprise::bindings {

// Names tensors as they come in calls, and adds a register for each that is
// new. Knows where each came from, and refuses what calls cannot have done to
// it: other memory, another form, another history. Borrows all that it is made
// of. One thread at a time.
class TapeNames {
 public:
  TapeNames(TapeRecord& record, TapeFault& fault, LeafGradients& gradients,
            const WatchedBefore& watched)
      : record_(record),
        fault_(fault),
        gradients_(gradients),
        watched_(watched),
        places_(watched) {}

  // What a tensor is now, which is named if it was not. Negative: it is none,
  // or cannot be named.
  int32_t AddInput(const at::Tensor& input, uint32_t index);
  enum class LookAt : uint8_t { kForm, kData };
  int32_t RegisterOf(const at::Tensor& tensor, LookAt look = LookAt::kData);
  // An operator that gives views of the first of these may have given a copy,
  // and so have looked at what it holds.
  void NoteCopies(std::span<const int32_t> of,
                  std::span<const c10::IValue> results);
  int32_t AddResult(const at::Tensor& tensor, size_t call);
  // Above autograd: a call has given it the history that it has now.
  void NoteHistory(int32_t reg, const at::Tensor& tensor);
  // A call gave memory of the host without content.
  void NoteUnwritten(const at::Tensor& tensor);
  // A call is about to write. It writes tensors from outside by their `.data`,
  // which has its own count of writes: theirs stays as it is.
  bool NoteWrites(const c10::OperatorHandle& op,
                  std::span<const c10::IValue> arguments);
  // That call is about to be made. What it gives of a `.data` from outside, by
  // views or detach, shares its count of writes, and not that of the tensor.
  void NoteViews(const c10::OperatorHandle& op,
                 std::span<const c10::IValue> arguments, size_t index);
  // It is the `.data` of a tensor from outside, or was given so.
  bool IsOfData(const at::Tensor& tensor) const;
  // At the end: refuses writes by such a `.data` that also count for others. A
  // pass that goes on outside writes what it was not given, which is told
  // first.
  void CheckDataWrites();

  // It has no register, and stands for none.
  bool IsNew(const at::Tensor& tensor) const;
  // It stands for one from outside, as its `.data`.
  bool IsDataOfOutside(const at::Tensor& tensor) const;
  // It is one of several that lie where it does: see TapePlacement::aliases.
  bool IsNamedByPlace(const at::Tensor& tensor) const;
  // Calls have made that memory.
  bool WasMade(const c10::StorageImpl* storage) const;
  // Null: it has none.
  const TapeRegister* Find(const c10::TensorImpl* tensor) const;

  // By register: its storage when it came.
  std::span<const c10::StorageImpl* const> storages() const {
    return storages_;
  }
  const c10::StorageImpl* StorageOf(int32_t reg) const {
    return storages_[static_cast<size_t>(reg)];
  }
  // In memory that no call has made.
  bool IsOutside(int32_t reg) const {
    return outside_.contains(StorageOf(reg));
  }
  // Above autograd: the function that had made it when it was last named.
  const torch::autograd::Node* HistoryOf(size_t reg) const {
    return histories_[reg];
  }

  // When the callable has ended. Above autograd: hooks are set on results.
  bool HasHooks() const;
  // What is over memory from outside is one of `outputs`, or has gone.
  void CheckAliases(std::span<const at::Tensor> outputs);
  // What is new at each call is a constant of the host. `saved` are by the
  // history of its outputs, and do not stay by themselves.
  void CheckConstants(std::span<const at::Tensor> saved);

 private:
  // What lies in that memory of the host has been looked at.
  void NoteRead(const c10::StorageImpl* storage);
  using Node = torch::autograd::Node;

  int32_t Add(const at::Tensor& tensor, TapeRegister::Origin origin,
              uint32_t index);
  int32_t AddForeign(const at::Tensor& tensor);
  // A call is given this tensor. It may be the `.data` of one that
  // the callable may look at, or of the gradient of one, and that no call has
  // used: below autograd, what of these lies in its place, in its form, gets a
  // register.
  void AddWatchedBeside(const at::Tensor& tensor);
  int32_t Name(const at::Tensor& tensor);
  // Registers in whose place the tensor lies, in their form; ascending.
  std::vector<int32_t> FindAliases(const at::Tensor& tensor) const;
  // It has the memory and the layout that operators have given it.
  bool IsWhereItWas(int32_t reg, const at::Tensor& tensor) const;
  // A tensor is an alias of one of these: of which one is known only while
  // arguments lie to each other as they do.
  void NoteOneOf(const at::Tensor& tensor, std::span<const int32_t> aliases);
  // Above autograd: Python has given it no other history than calls did.
  bool HasItsHistory(int32_t reg, const at::Tensor& tensor) const;

  TapeRecord& record_;
  TapeFault& fault_;
  LeafGradients& gradients_;
  const WatchedBefore& watched_;
  WatchedPlaces places_;

  // By a tensor that is known; weak references keep addresses from being used
  // again.
  std::unordered_map<const c10::TensorImpl*, int32_t> known_;
  std::vector<WeakTensor> kept_;
  std::unordered_set<const c10::TensorImpl*> by_place_;  // of these
  std::unordered_multimap<const c10::StorageImpl*, int32_t> by_storage_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> kept_storages_;
  std::vector<const c10::StorageImpl*> storages_;        // by register
  std::vector<TensorForm> forms_;                        // the same, as of now
  std::unordered_set<const c10::StorageImpl*> outside_;  // not of results
  std::vector<const Node*> histories_;                   // by register
  std::vector<NodePtr> nodes_;                           // of results
  std::vector<WeakTensor> aliases_;  // over memory from outside
  // Of what is outside, by its `.data`.
  struct Data {
    std::unordered_set<const c10::TensorImpl*> aliases = {};
    std::unordered_set<size_t> calls = {};  // that gave views of one
    std::unordered_set<const c10::TensorImpl*> results = {};  // of these
    uint64_t written_at = 0;  // for others, too: where the program was
  };
  Data data_;
  // What the host alone may have written.
  std::unordered_set<const c10::StorageImpl*> unwritten_;
  // Of this memory: the register whose form alone has been looked at.
  std::unordered_map<const c10::StorageImpl*, int32_t> unread_;
  // Of small tensors of the host that came from outside.
  struct Content {
    int32_t reg = 0;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };
  std::vector<Content> contents_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_NAMES_H_
