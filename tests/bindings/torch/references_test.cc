// No tensor or storage of the program's is referenced or released under a
// session's lock: Python counts references to what it holds under a lock of its
// own, and who has that one may wait for the session.

#include <ATen/ATen.h>
#include <c10/core/impl/PyInterpreter.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <functional>
#include <vector>

#include "bindings/torch/observe/no_interpreter.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "tests/bindings/torch/fake_interpreter.h"
#include "tests/bindings/torch/fake_session.h"

namespace torch::utils {

// In place of torch's own, which needs Python: gives objects a Python object.
class PyObjectPreservation {
 public:
  template <typename Slot>
  static void Give(const c10::intrusive_ptr_target& target, Slot& slot,
                   c10::impl::PyInterpreter* interpreter) {
    // Newer versions have one for all.
    if constexpr (requires { slot.pyobj_interpreter_; }) {
      slot.pyobj_interpreter_.store(interpreter);
    }
    slot.store_pyobj(reinterpret_cast<PyObject*>(&slot));
    target.combined_refcount_.fetch_or(c10::detail::kHasPyObject);
  }
};

}  // namespace torch::utils

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;

// Counts references to Python objects, and those that are counted while a
// session is locked.
class FakePython final : public NoInterpreter {
 public:
  explicit FakePython(const scheduler::Session& session) : session_(session) {}

  int references() const { return references_; }
  int under_lock() const { return under_lock_; }

  void incref(PyObject*) const override { Count(); }
  void decref(PyObject*) const override { Count(); }
  bool try_incref(const c10::impl::PyObjectSlot&) const override {
    Count();
    return true;
  }
  std::string name() const override { return "fake"; }

  size_t refcnt(PyObject*) const override { return 1; }

 private:
  void Count() const {
    ++references_;
    under_lock_ += session_.locked();
  }

  const scheduler::Session& session_;
  mutable int references_ = 0;
  mutable int under_lock_ = 0;
};

// An op that is not one of views, and returns its operand and a view of it.
std::tuple<at::Tensor, at::Tensor, at::Tensor> Parts(const at::Tensor& a) {
  return {a, a.narrow(0, 1, 2), a + 1};
}
std::vector<at::Tensor> Both(const at::Tensor& a, const at::Tensor& b) {
  return {a, b};
}

TORCH_LIBRARY(reprise_references, m) {
  m.def("parts(Tensor a) -> (Tensor, Tensor, Tensor)");
  m.def("both(Tensor a, Tensor b) -> Tensor[]");
  m.def("fill(Tensor(a!) a, Tensor b) -> Tensor(a!)");
}
TORCH_LIBRARY_IMPL(reprise_references, CPU, m) {
  m.impl("parts", Parts);
  m.impl("both", Both);
  m.impl("fill", [](at::Tensor& a, const at::Tensor& b) -> at::Tensor& {
    return a.copy_(b);
  });
}

class ReferencesTest : public ::testing::Test {
 protected:
  // A tensor that a program holds by a Python object, and its storage too.
  at::Tensor PythonTensor(at::IntArrayRef sizes,
                          at::ScalarType dtype = at::kFloat) {
    using torch::utils::PyObjectPreservation;
    fake_interpreter = &interpreter_;
    const at::Tensor made = at::ones(sizes, dtype);
    c10::StorageImpl& storage =
        *made.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    PyObjectPreservation::Give(storage, *storage.pyobj_slot(), &interpreter_);
    c10::TensorImpl& tensor = *made.unsafeGetTensorImpl();
    PyObjectPreservation::Give(tensor, *tensor.pyobj_slot(), &interpreter_);
    return made;
  }

  // Observes `program`, with its calls boxed, and follows it.
  Tensors Run(const std::function<Tensors()>& program) {
    session_.WantCalls();
    session_.Record();
    program();
    session_.Follow();
    const int before = python_.references();
    const Tensors followed = program();
    EXPECT_EQ(session_.follows(), session_.seen().size());
    EXPECT_GT(session_.follows(), 0u);
    EXPECT_GT(python_.references(), before);
    EXPECT_EQ(python_.under_lock(), 0);
    session_.Pass();
    return followed;
  }

  torch::jit::Stack Call(const char* name, torch::jit::Stack stack) {
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
    return stack;
  }

  FakeSession session_;
  FakePython python_{session_};
  c10::impl::PyInterpreter interpreter_{&python_};
};

TEST_F(ReferencesTest, ResultThatIsItsOperand) {
  const auto a = PythonTensor({3, 4});
  const Tensors followed = Run([&] { return Tensors{at::dequantize(a)}; });
  EXPECT_TRUE(followed[0].is_same(a));
}

TEST_F(ReferencesTest, TupleWithItsOperandAndAViewOfIt) {
  const auto a = PythonTensor({4});
  const Tensors followed = Run([&] {
    const torch::jit::Stack returned = Call("reprise_references::parts", {a});
    return Tensors{returned[0].toTensor(), returned[1].toTensor(),
                   returned[2].toTensor()};
  });
  EXPECT_TRUE(followed[0].is_same(a));
  EXPECT_TRUE(followed[1].is_alias_of(a));
  EXPECT_EQ(followed[1].storage_offset(), 1);
  EXPECT_EQ(followed[1].sizes(), at::IntArrayRef({2}));
  EXPECT_TRUE(followed[2].equal(a + 1));
}

TEST_F(ReferencesTest, ListOfOperands) {
  const auto a = PythonTensor({3}), b = PythonTensor({2});
  const Tensors followed = Run([&] {
    return Call("reprise_references::both", {a, b})[0].toTensorVector();
  });
  ASSERT_EQ(followed.size(), 2u);
  EXPECT_TRUE(followed[0].is_same(a));
  EXPECT_TRUE(followed[1].is_same(b));
}

TEST_F(ReferencesTest, ArgumentsThatAreReturned) {
  const auto a = PythonTensor({3}), b = PythonTensor({3});
  Run([&] {
    return Tensors{Call("reprise_references::fill", {a, b})[0].toTensor()};
  });
}

TEST_F(ReferencesTest, BoxedListsOfOperands) {
  const auto a = PythonTensor({3, 2}), b = PythonTensor({3, 2});
  const auto index = PythonTensor({2}, at::kLong);
  Run([&] {
    return Tensors{at::cat({a, b}), at::stack({a, b}),
                   at::_unsafe_index(a, {index}), at::dequantize(b)};
  });
}

// What a launch holds, it holds without Python.
TEST_F(ReferencesTest, StorageThatOnlyPythonRefersToIsNotHeld) {
  const auto frontend =
      MakeFrontend({scheduler::DeviceKind::kHost, 0, nullptr},
                   [](engine::OpId) { return std::string(); });
  const auto a = PythonTensor({3});
  const c10::StorageImpl& storage = *a.storage().unsafeGetStorageImpl();
  const engine::StoragePlace place{TokenOf(storage), BaseOf(storage)};
  frontend->Retain(place.storage);
  const int before = python_.references();
  EXPECT_EQ(frontend->Hold({&place, 1}), 0u);
  EXPECT_EQ(python_.references(), before);
  {
    const c10::Storage other = a.storage();
    EXPECT_EQ(frontend->Hold({&place, 1}), 1u);
    EXPECT_EQ(other.use_count(), 3u);
    frontend->Drop({&place, 1});
  }
  frontend->Release(place.storage);
}

TEST_F(ReferencesTest, OpsThatRaise) {
  const auto a = PythonTensor({3, 3}), b = PythonTensor({4, 4});
  session_.WantCalls();
  session_.Record();
  EXPECT_THROW(at::mm(a, b), c10::Error);
  EXPECT_THROW(at::cat({a, b}, 7), c10::Error);
  EXPECT_EQ(python_.under_lock(), 0);
}

}  // namespace
}  // namespace reprise::bindings
