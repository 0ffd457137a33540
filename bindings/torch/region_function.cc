// Functions of Python's, made of the interpreter's stable interface and of two
// functions of torch's.

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/torch/base/python_api.h"
#include "bindings/torch/base/python_lock.h"
#include "bindings/torch/region_library.h"

namespace reprise::bindings {
namespace {

struct Python {
  using Object = void*;
  // PyMethodDef.
  using Function = Object (*)(Object self, Object const* arguments,
                              ptrdiff_t count);
  struct Method {
    const char* name;
    Function function;
    int flags;
    const char* documentation;
  };
  static constexpr int kFastCall = 0x0080;  // METH_FASTCALL

  Object (*function)(Method*, Object, Object) =
      OfPython<Object(Method*, Object, Object)>("PyCFunction_NewEx");
  ptrdiff_t (*size)(Object) = OfPython<ptrdiff_t(Object)>("PyList_Size");
  Object (*item)(Object, ptrdiff_t) =  // borrowed
      OfPython<Object(Object, ptrdiff_t)>("PyList_GetItem");
  int64_t (*integer)(Object) = OfPython<int64_t(Object)>("PyLong_AsLongLong");
  double (*number)(Object) = OfPython<double(Object)>("PyFloat_AsDouble");
  int (*warn)(Object, const char*, ptrdiff_t) =
      OfPython<int(Object, const char*, ptrdiff_t)>("PyErr_WarnEx");
  Object* const user_warning = OfPython<Object>("PyExc_UserWarning");
  Object* const deprecation_warning =
      OfPython<Object>("PyExc_DeprecationWarning");
  Object (*failed)() = OfPython<Object()>("PyErr_Occurred");
  Object (*element)(Object, ptrdiff_t) =  // borrowed
      OfPython<Object(Object, ptrdiff_t)>("PyTuple_GetItem");
  Object (*tuple)(ptrdiff_t) = OfPython<Object(ptrdiff_t)>("PyTuple_New");
  int (*put)(Object, ptrdiff_t, Object) =  // takes the reference
      OfPython<int(Object, ptrdiff_t, Object)>("PyTuple_SetItem");
  Object (*from_integer)(int64_t) =
      OfPython<Object(int64_t)>("PyLong_FromLongLong");
  void (*hold)(Object) = OfPython<void(Object)>("Py_IncRef");
  void (*drop)(Object) = OfPython<void(Object)>("Py_DecRef");
  // A tensor's object; an exception, raised.
  Object (*wrap)(const at::TensorBase&) =
      OfTorchsPython<Object(const at::TensorBase&)>(
          "_Z16THPVariable_WrapRKN2at10TensorBaseE");
  void (*raise)(const std::exception_ptr&) =
      OfTorchsPython<void(const std::exception_ptr&)>(
          "_ZN5torch29translate_exception_to_pythonERKNSt15__exception_"
          "ptr13exception_ptrE");

  bool runs() const {
    return function != nullptr && size != nullptr && item != nullptr &&
           element != nullptr && integer != nullptr && number != nullptr &&
           failed != nullptr && tuple != nullptr && put != nullptr &&
           from_integer != nullptr && warn != nullptr &&
           user_warning != nullptr && deprecation_warning != nullptr &&
           hold != nullptr && drop != nullptr && wrap != nullptr &&
           raise != nullptr;
  }

  static const Python& Get() {
    static const Python python;
    return python;
  }
};

at::Tensor TensorOf(Python::Object object) {
  auto* const held =
      static_cast<c10::TensorImpl*>(static_cast<PythonObject*>(object)->held);
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl,
                         c10::UndefinedTensorImpl>::reclaim_copy(held));
}

// A reference, given up at the end; null: it could not be made, and Python's
// error is set.
class Owned {
 public:
  explicit Owned(Python::Object object) : object_(object) {}
  ~Owned() { Python::Get().drop(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  // Into a tuple. False: one of the two could not be made.
  bool Put(ptrdiff_t index, Python::Object object) {
    return object_ != nullptr && object != nullptr &&
           Python::Get().put(object_, index, object) == 0;
  }
  Python::Object Take() { return std::exchange(object_, nullptr); }

 private:
  Python::Object object_;
};

// Keeps what comes from outside of a tape from going, from one time that
// Python's lock is held to the next. By their objects, where they have some: a
// reference to the tensor is fifty times as dear.
class Held {
 public:
  explicit Held(std::shared_ptr<const Tape> tape) : tape_(std::move(tape)) {
    if (tape_ == nullptr) return;
    const std::span<const WeakTensor> all = tape_->foreign();
    objects_.reserve(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      constexpr size_t kAhead = 6;
      if (i + 2 * kAhead < all.size()) {
        Prefetch(all[i + 2 * kAhead]._unsafe_get_target(),
                 sizeof(c10::TensorImpl));
      }
      if (i + kAhead < all.size()) {
        Prefetch(ObjectOf(all[i + kAhead]), sizeof(PythonObject));
      }
      if (!Add(all[i])) {
        tape_ = nullptr;
        return;
      }
    }
  }
  ~Held() {
    for (const Python::Object object : objects_) Python::Get().drop(object);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  // Null: it is run without.
  const Tape* tape() const { return tape_.get(); }

 private:
  // Its memory stays as long as there is a weak reference. Null: it has none.
  static Python::Object ObjectOf(const WeakTensor& tensor) {
    return tensor._unsafe_get_target()->pyobj_slot()->load_pyobj();
  }

  bool Add(const WeakTensor& tensor) {
    if (tensor.use_count() == 0) return false;
    Python::Object const object = ObjectOf(tensor);
    if (object == nullptr) {
      auto held = tensor.lock();
      if (!held) return false;
      tensors_.emplace_back(std::move(held));
      return true;
    }
    // One that is about to end has none.
    const auto references =
        *static_cast<const uint32_t*>(static_cast<const void*>(object));
    if (references == 0) return false;
    Python::Get().hold(object);
    objects_.push_back(object);
    return true;
  }

  std::shared_ptr<const Tape> tape_;
  std::vector<Python::Object> objects_;
  std::vector<at::Tensor> tensors_;
};

// Keeps what operators of a call have to say until Python's lock is held, as
// torch does round each of its functions.
class KeptWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    kept_.push_back(warning);
  }
  // False: one of them is an error, by the program's filters, and is set.
  bool Tell() const {
    const Python& python = Python::Get();
    for (const c10::Warning& warning : kept_) {
      std::string text = warning.msg();
      const c10::SourceLocation& place = warning.source_location();
      if (place.file != nullptr && !warning.verbatim()) {
        text += std::string(" (Triggered internally at ") + place.file + ":" +
                std::to_string(place.line) + ".)";
      }
      const bool deprecation =
          std::holds_alternative<c10::DeprecationWarning>(warning.type());
      if (python.warn(
              deprecation ? *python.deprecation_warning : *python.user_warning,
              text.c_str(), kOfTheCaller) < 0) {
        return false;
      }
    }
    return true;
  }

 private:
  // The line that has called the region, behind two functions of the package.
  static constexpr ptrdiff_t kOfTheCaller = 3;

  std::vector<c10::Warning> kept_;
};

Python::Object Packed(const RegionCall& call) {
  const Python& python = Python::Get();
  const auto count = static_cast<ptrdiff_t>(call.outputs.size());
  Owned outputs(python.tuple(count));
  for (ptrdiff_t i = 0; i < count; ++i) {
    const at::Tensor& output = call.outputs[static_cast<size_t>(i)];
    if (!outputs.Put(i, python.wrap(output))) return nullptr;
  }
  Owned packed(python.tuple(3));
  const bool whole = packed.Put(0, python.from_integer(call.step)) &&
                     packed.Put(1, python.from_integer(call.tape)) &&
                     packed.Put(2, outputs.Take());
  return whole ? packed.Take() : nullptr;
}

Python::Object Run(Python::Object, Python::Object const* arguments, ptrdiff_t) {
  const Python& python = Python::Get();
  try {
    const int64_t name = python.integer(arguments[0]);
    const int64_t watch = python.integer(arguments[1]);
    const int64_t given_watch = python.integer(arguments[4]);
    std::vector<at::Tensor> tensors;
    const ptrdiff_t count = python.size(arguments[2]);
    tensors.reserve(static_cast<size_t>(count));
    for (ptrdiff_t i = 0; i < count; ++i) {
      tensors.push_back(TensorOf(python.item(arguments[2], i)));
    }
    std::vector<double> numbers;
    for (ptrdiff_t i = 0; i < python.size(arguments[3]); ++i) {
      numbers.push_back(python.number(python.item(arguments[3], i)));
    }
    if (python.failed() != nullptr) return nullptr;
    const auto region = FindRegion(name);
    const Held held(region != nullptr ? region->RunLast() : nullptr);
    RegionCall call;
    KeptWarnings warnings;
    {
      const PythonLockGivenUp without;
      const c10::WarningUtils::WarningHandlerGuard kept(&warnings);
      call = RunRegion(region.get(), watch, given_watch, {tensors, numbers},
                       held.tape());
    }
    for (const std::shared_ptr<RegionHistory>& history : call.histories) {
      history->Attach(call.outputs, tensors);
    }
    if (!call.histories.empty()) {
      call.outputs.resize(call.histories.front()->outputs());
    }
    if (!warnings.Tell()) return nullptr;
    return Packed(call);
  } catch (...) {
    python.raise(std::current_exception());
    return nullptr;
  }
}

Python::Object AreThese(Python::Object, Python::Object const* arguments,
                        ptrdiff_t) {
  const Python& python = Python::Get();
  const auto* const places =
      reinterpret_cast<const int64_t*>(python.integer(arguments[1]));
  const auto* const ids =
      reinterpret_cast<const int64_t*>(python.integer(arguments[2]));
  const int64_t count = python.integer(arguments[3]);
  if (python.failed() != nullptr) return nullptr;
  for (int64_t i = 0; i < count; ++i) {
    // An object's id is where it is.
    Python::Object const object = python.element(arguments[0], places[i]);
    if (object == nullptr) return nullptr;  // an error is set
    if (reinterpret_cast<int64_t>(object) != ids[i]) {
      return python.from_integer(0);
    }
  }
  return python.from_integer(1);
}

Python::Object Make() {
  static Python::Method methods[] = {
      {"run_region", &Run, Python::kFastCall, nullptr},
      {"are_these", &AreThese, Python::kFastCall, nullptr}};
  const Python& python = Python::Get();
  Owned functions(python.tuple(std::size(methods)));
  for (size_t i = 0; i < std::size(methods); ++i) {
    if (!functions.Put(static_cast<ptrdiff_t>(i),
                       python.function(&methods[i], nullptr, nullptr))) {
      return nullptr;
    }
  }
  return functions.Take();
}

}  // namespace

int64_t RegionFunctions() {
  return Python::Get().runs() ? reinterpret_cast<int64_t>(&Make) : 0;
}

}  // namespace reprise::bindings
