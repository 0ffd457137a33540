#include "bindings/torch/hook/op_call.h"

#include <c10/core/impl/COWDeleter.h>

#include <bit>
#include <cstring>
#include <new>

#include "bindings/torch/base/cufft_plans.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/runtime/kernel_state.h"
#include "bindings/torch/runtime/others_memory.h"
#include "bindings/torch/runtime/switches.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "engine/trace/trace.h"

namespace reprise::bindings {
namespace {

// Of operands of other types ops refuse more numbers (what a byte cannot hold),
// or make other numbers of them (complex ones).
constexpr uint64_t kDtypesOfNumbers = [] {
  uint64_t dtypes = 0;
  for (const at::ScalarType dtype :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
        at::kBool}) {
    dtypes |= uint64_t{1} << static_cast<int>(dtype);
  }
  return dtypes;
}();

// Of what the word says that opens an operand.
constexpr uint64_t DtypeOf(uint64_t word) { return word & 0xffff; }

// What torch makes without content has content all the same.
bool FillsWhatIsEmpty() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() &&
         context.deterministicFillUninitializedMemory();
}

bool IsCopyOnWrite(const c10::StorageImpl& storage) {
  auto& unchecked = const_cast<c10::StorageImpl&>(storage);
  return unchecked._mutable_data_ptr_no_checks().get_deleter() ==
         &c10::impl::cow::cow_deleter;
}

// Sizes and strides, one element after the other: a loop is vectorised, which
// looks for overlaps first and waits for what a tensor has just got one by one.
// Tensors have few dimensions.
[[gnu::always_inline]] inline void CopyExtents(const int64_t* sizes,
                                               const int64_t* strides,
                                               size_t rank, uint64_t* to) {
  const auto copy = [&](size_t i) {
    to[i] = static_cast<uint64_t>(sizes[i]);
    to[rank + i] = static_cast<uint64_t>(strides[i]);
  };
  switch (rank) {
    default:
      for (size_t i = 4; i < rank; ++i) copy(i);
      [[fallthrough]];
    case 4:
      copy(3);
      [[fallthrough]];
    case 3:
      copy(2);
      [[fallthrough]];
    case 2:
      copy(1);
      [[fallthrough]];
    case 1:
      copy(0);
      [[fallthrough]];
    case 0:
      break;
  }
}

// Where the tensor is now.
[[gnu::always_inline]] inline engine::Operand Locate(
    const c10::TensorImpl& tensor, const c10::StorageImpl& storage) {
  const at::IntArrayRef sizes = tensor.sizes();
  const at::IntArrayRef strides = tensor.strides();
  const at::ScalarType dtype = c10::typeMetaToScalarType(tensor.dtype());
  const size_t element_bytes = c10::elementSize(dtype);
  return {
      .storage = TokenOf(storage),
      .base = BaseOf(storage),
      .offset_bytes =
          static_cast<uint64_t>(tensor.storage_offset()) * element_bytes,
      .storage_bytes = storage.nbytes(),
      .dtype = static_cast<int32_t>(dtype),
      .element_bytes = static_cast<uint32_t>(element_bytes),
      .sizes = {sizes.data(), sizes.size()},
      .strides = {strides.data(), strides.size()},
  };
}

}  // namespace

uint64_t AlignmentClass(uint64_t address, scheduler::DeviceKind kind) {
  // cuBLAS asks for up to 256 bytes. The host's allocator gives 64, and what is
  // beyond them is chance.
  const int most = kind == scheduler::DeviceKind::kCuda ? 8 : 6;
  return static_cast<uint64_t>(std::min(std::countr_zero(address), most));
}

OpCall::OpCall(const OpInfo& info, scheduler::DeviceKind kind)
    : info_(info), device_(kind), cut_(info.cut) {
  uint64_t* header = words_.Extend(2);
  header[0] = info.id;
  const uint64_t switches = CommonSwitches(kind);
  header[1] = switches ^ KernelState();
  if (kind == scheduler::DeviceKind::kHost) switches_ = switches;
}

[[gnu::always_inline]] inline void OpCall::AddOperand(c10::TensorImpl* tensor) {
  const c10::StorageImpl& storage =
      *tensor->unsafe_storage().unsafeGetStorageImpl();
  engine::Operand& operand =
      *::new (operands_.Extend(1)) engine::Operand(Locate(*tensor, storage));
  const auto dtype = static_cast<at::ScalarType>(operand.dtype);
  operand.written = Written();
  operand.shared =
      kind() == scheduler::DeviceKind::kHost && OthersMayWrite(storage);
  if ((info_.traps.index_arguments >> argument_ & 1) != 0) [[unlikely]] {
    may_trap_ |= at::isIntegralType(dtype, /*includeBool=*/false);
  }
  if (operand.written) {
    has_written_ = true;
    if (IsCopyOnWrite(storage)) Cut("copy-on-write operand");
  }
  sources_.Push(Source{tensor, static_cast<uint32_t>(words_.size()), argument_,
                       operand.written ? VersionOf(*tensor) : 0});
  const size_t rank = operand.sizes.size();
  dtypes_ |= uint64_t{1} << static_cast<int>(dtype);
  const bool has_gradient = info_.asks_gradients && tensor->requires_grad();
  uint64_t* word = words_.Extend(2 + 2 * rank);
  word[0] =
      TagWord(Tag::kOperand,
              uint64_t{has_gradient} << 43 | uint64_t{operand.shared} << 42 |
                  uint64_t{operand.written} << 41 |
                  uint64_t{tensor->is_wrapped_number()} << 40 |
                  AlignmentClass(operand.address(), kind()) << 32 |
                  uint64_t{rank} << 16 | static_cast<uint64_t>(dtype));
  word[1] = tensor->key_set().raw_repr();
  CopyExtents(operand.sizes.data(), operand.strides.data(), rank, word + 2);
}

void OpCall::AddTensor(const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!tensor.defined()) {
    words_.Push(TagWord(Tag::kUndefined));
    return;
  }
  if (!IsPlainTensor(*impl)) [[unlikely]] {
    if (!device_.AddForeign(*impl)) CutForDevices();
    return;
  }
  if (kind() == scheduler::DeviceKind::kCuda) {
    const c10::Device device = impl->device();
    if (device.is_cuda()) {
      if (!device_.AddOnDevice(device.index())) [[unlikely]]
        CutForDevices();
      AddOperand(impl);
    } else if (!device.is_cpu()) {
      SetForeign();
    } else if (info_.copies_from_host) {
      AddHostTensor(*impl);
    } else if (impl->dim() == 0 && !Written()) {
      AddHostScalar(impl);
    } else {
      Cut("host operand");
    }
  } else if (!impl->device().is_cpu()) {
    SetForeign();
  } else if (impl->is_wrapped_number() && impl->dim() == 0 && !Written()) {
    AddHostScalar(impl);
  } else {
    device_.AddOnHost();
    AddOperand(impl);
  }
}

void OpCall::AddHostScalar(const c10::TensorImpl* tensor) {
  const size_t size_bytes = tensor->itemsize();
  uint64_t* word = words_.Extend(4);
  word[0] = TagWord(
      Tag::kHostScalar,
      uint64_t{tensor->is_wrapped_number()} << 40 |
          static_cast<uint64_t>(c10::typeMetaToScalarType(tensor->dtype())));
  word[1] = tensor->key_set().raw_repr();
  word[2] = word[3] = 0;
  const uint64_t base =
      BaseOf(*tensor->unsafe_storage().unsafeGetStorageImpl());
  if (size_bytes > 16 || base == 0) {
    Cut("host operand");
    return;
  }
  const uint64_t offset_bytes =
      static_cast<uint64_t>(tensor->storage_offset()) * size_bytes;
  std::memcpy(&word[2], reinterpret_cast<const void*>(base + offset_bytes),
              size_bytes);
  const at::ScalarType dtype = c10::typeMetaToScalarType(tensor->dtype());
  dtypes_ |= uint64_t{1} << static_cast<int>(dtype);
  if ((info_.seeds.arguments >> argument_ & 1) != 0 && dtype == at::kLong)
      [[unlikely]] {
    seed_words_[seed_words_[0] != 0] = static_cast<uint32_t>(words_.size() - 2);
    AddNumber(engine::NumberType::kInt64, 2, engine::Decides::kNothingAtAll);
    return;
  }
  if (const auto type = NumberTypeOf(dtype)) AddNumber(*type, 2);
}

void OpCall::AddHostTensor(const c10::TensorImpl& tensor) {
  by_eager_ = true;
  const size_t rank = static_cast<size_t>(tensor.dim());
  uint64_t* word = words_.Extend(2 + 2 * rank);
  word[0] = TagWord(
      Tag::kHostTensor,
      uint64_t{rank} << 16 |
          static_cast<uint64_t>(c10::typeMetaToScalarType(tensor.dtype())));
  word[1] = tensor.key_set().raw_repr();
  word += 2;
  for (size_t i = 0; i < rank; ++i) {
    word[i] = static_cast<uint64_t>(tensor.sizes()[i]);
    word[rank + i] = static_cast<uint64_t>(tensor.strides()[i]);
  }
}

void OpCall::AddBool(bool value) {
  words_.Push(TagWord(Tag::kBool, value));
  true_arguments_ |= uint64_t{value} << argument_;
}

void OpCall::AddDevice(std::optional<c10::Device> device) {
  device_argument_ = argument_;
  if (!device.has_value()) {
    words_.Push(TagWord(Tag::kNone));
    return;
  }
  words_.Push(TagWord(Tag::kDevice, static_cast<uint64_t>(device->type()) << 8 |
                                        static_cast<uint8_t>(device->index())));
  device_.SetOption(*device);
}

std::optional<int> OpCall::Finish() {
  const char* why_cut = nullptr;
  if (!device_.Choose(info_.factory, &why_cut)) return std::nullopt;
  if (why_cut != nullptr) Cut(why_cut);
  words_[0] |= uint64_t{operands_.size()} << 32;
  if (info_.switches != kNoSwitches) {
    AddSwitches(info_.switches, kind(), words_);
    may_try_kernels_ = MayTryKernels(info_.switches, kind());
  }
  if (info_.completed) [[unlikely]]
    Complete();
  if (!NumbersMayBeSlots()) numbers_.Clear();
  return device_.index();
}

void OpCall::Complete() {
  if (info_.by_storages) AddStorages();
  if (info_.written.hidden != 0) ApplyHiddenWrites();
  if (info_.unread.any()) NoteUnread();
  if (info_.seeds.arguments != 0) ForgetSeeds();
  if (info_.effects.may_use_cufft && kind() == scheduler::DeviceKind::kCuda &&
      device_.index() >= 0 && CufftCacheIsFull(device_.index())) {
    Cut("a transform, or a custom operator, while torch's cache of cuFFT's "
        "plans is full");
  }
}

void OpCall::AddStorages() {
  for (const engine::Operand& operand : operands_.span()) {
    words_.Push(operand.offset_bytes);
    words_.Push(operand.storage_bytes);
  }
}

bool OpCall::NumbersMayBeSlots() const {
  if ((dtypes_ & ~kDtypesOfNumbers) != 0) return false;
  const bool one_dtype = (dtypes_ & (dtypes_ - 1)) == 0;
  return one_dtype || info_.by_value.doubles || !HasMixedList();
}

bool OpCall::HasMixedList() const {
  bool lists = false;
  bool several = false;
  for (size_t i = 1; i < sources_.size(); ++i) {
    lists |= sources_[i].argument == sources_[i - 1].argument;
    several |=
        DtypeOf(words_[sources_[i].word]) != DtypeOf(words_[sources_[0].word]);
  }
  return lists && several;
}

void OpCall::ForgetSeeds() {
  if ((zero_arguments_ >> info_.seeds.dropout_argument & 1) == 0) return;
  for (const uint32_t word : seed_words_) {
    if (word != 0) words_[word] = 0;
  }
  numbers_.Clear();  // it has no others
}

void OpCall::ApplyHiddenWrites() {
  if (info_.written.training_argument >= 0 &&
      (true_arguments_ >> info_.written.training_argument & 1) == 0) {
    return;
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    if ((info_.written.hidden >> sources_[i].argument & 1) != 0) {
      operands_[i].written = true;
      sources_[i].version = VersionOf(*sources_[i].tensor);
      has_written_ = true;
    }
  }
}

void OpCall::NoteUnread() {
  uint64_t unread = info_.unread.always;
  if ((zero_arguments_ >> info_.unread.zero_argument & 1) != 0) {
    unread |= info_.unread.if_zero;
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    operands_[i].unread = (unread >> sources_[i].argument & 1) != 0;
  }
}

bool OpCall::RefreshWritten() {
  if (!has_written_) return true;
  bool same = true;
  for (size_t i = 0; i < operands_.size(); ++i) {
    engine::Operand& operand = operands_[i];
    if (!operand.written) continue;
    const engine::Operand before = operand;
    const c10::TensorImpl& tensor = *sources_[i].tensor;
    const c10::Storage& storage = tensor.unsafe_storage();
    if (!storage) return false;
    operand = Locate(tensor, *storage.unsafeGetStorageImpl());
    operand.written = before.written;
    operand.unread = before.unread;
    const size_t rank = words_[sources_[i].word] >> 16 & 0xffff;
    // The old sizes and strides are only left in the words: the spans show the
    // tensor as it is now.
    const uint64_t* words = &words_[sources_[i].word + 2];
    same = same && operand.storage == before.storage &&
           operand.base == before.base &&
           operand.offset_bytes == before.offset_bytes &&
           operand.storage_bytes == before.storage_bytes &&
           operand.sizes.size() == rank &&
           std::memcmp(words, operand.sizes.data(), rank * 8) == 0 &&
           std::memcmp(words + rank, operand.strides.data(), rank * 8) == 0;
    const uint32_t bumps = VersionOf(tensor) - sources_[i].version;
    operand.version_bumps = static_cast<uint8_t>(bumps);
    same = same && operand.version_bumps == bumps;
  }
  return same;
}

void OpCall::BumpVersions(const engine::TracedOp& op) const {
  if (!CountsWrites()) return;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    // Views have one count with their base: it is raised once.
    const uint32_t version = sources_[i].version + op.operands[i].version_bumps;
    while (VersionOf(*sources_[i].tensor) < version) {
      sources_[i].tensor->bump_version();
    }
  }
}

engine::OpView OpCall::view() const {
  return {
      .op = info_.id,
      .words = words_.span(),
      .operands = operands(),
      .scalars = numbers_.span(),
      .cut = cut_,
      .by_eager = by_eager_,
      .may_use_generator = info_.effects.may_use_generator,
      .forks_streams = info_.effects.forks_streams,
      .leaves_unwritten = info_.effects.leaves_unwritten && !FillsWhatIsEmpty(),
      .may_trap = may_trap_ || info_.traps.always,
      .may_try_kernels = may_try_kernels_,
      .may_use_library_plans = info_.effects.may_use_cufft,
      .switches = switches_,
      .warned = warned_,
  };
}

}  // namespace reprise::bindings
