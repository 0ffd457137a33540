#include "bindings/torch/runtime/program_place.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/torch/base/python_api.h"
#include "engine/base/mutex.h"

namespace reprise::bindings {
namespace {

// What is used of the interpreter, all of its stable interface.
struct Python {
  using Object = void*;

  int (*initialized)() = OfPython<int()>("Py_IsInitialized");
  int (*finalizing)() = Finalizing();
  int (*later)(int (*)(void*), void*) =
      OfPython<int(int (*)(void*), void*)>("Py_AddPendingCall");
  Object (*frame)() = OfPython<Object()>("PyEval_GetFrame");  // borrowed
  Object (*back)(Object) = OfPython<Object(Object)>("PyFrame_GetBack");
  Object (*code)(Object) = OfPython<Object(Object)>("PyFrame_GetCode");
  int (*line)(Object) = OfPython<int(Object)>("PyFrame_GetLineNumber");
  Object (*attribute)(Object, const char*) =
      OfPython<Object(Object, const char*)>("PyObject_GetAttrString");
  const char* (*text)(Object, ptrdiff_t*) =
      OfPython<const char*(Object, ptrdiff_t*)>("PyUnicode_AsUTF8AndSize");
  void (*clear)() = OfPython<void()>("PyErr_Clear");
  void (*take)(Object) = OfPython<void(Object)>("Py_IncRef");
  void (*drop)(Object) = OfPython<void(Object)>("Py_DecRef");

  bool runs() const {
    return initialized != nullptr && finalizing != nullptr &&
           later != nullptr && frame != nullptr && back != nullptr &&
           code != nullptr && line != nullptr && attribute != nullptr &&
           text != nullptr && clear != nullptr && take != nullptr &&
           drop != nullptr && initialized() != 0 && finalizing() == 0;
  }

  static int (*Finalizing())() {
    const auto found = OfPython<int()>("Py_IsFinalizing");  // from 3.13 on
    return found != nullptr ? found : OfPython<int()>("_Py_IsFinalizing");
  }

  static const Python& Get() {
    static const Python python;
    return python;
  }
};

// One reference.
class Owned {
 public:
  explicit Owned(Python::Object object) : object_(object) {}
  ~Owned() {
    if (object_ != nullptr) Python::Get().drop(object_);
  }
  Owned(Owned&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  static Owned Of(Python::Object borrowed) {
    if (borrowed != nullptr) Python::Get().take(borrowed);
    return Owned(borrowed);
  }
  Python::Object get() const { return object_; }

 private:
  Python::Object object_;
};

struct Line {
  std::string file;
  int number = 0;

  std::string Text(std::string_view shown) const {
    return std::string(shown) + ":" + std::to_string(number);
  }
  std::string Text() const { return Text(file); }
};

std::optional<Line> LineOf(Python::Object frame) {
  const Python& python = Python::Get();
  const Owned code(python.code(frame));
  const Owned name(python.attribute(code.get(), "co_filename"));
  ptrdiff_t size = 0;
  const char* const text =
      name.get() == nullptr ? nullptr : python.text(name.get(), &size);
  if (text == nullptr) {
    python.clear();
    return std::nullopt;
  }
  return Line{std::string(text, static_cast<size_t>(size)), python.line(frame)};
}

constexpr std::string_view kInstalled[] = {"/site-packages/",
                                           "/dist-packages/"};

// Of an installed package's file, its path from there on; else empty.
std::string_view InPackages(std::string_view file) {
  for (const std::string_view folder : kInstalled) {
    const size_t at = file.rfind(folder);
    if (at != file.npos) return file.substr(at + folder.size());
  }
  return {};
}

// This package's modules and folders: none is called otherwise
// (tests/architecture/own_files_test.py).
constexpr std::string_view kOwn[] = {"/reprise/_", "/reprise/guards/",
                                     "/reprise/nodes/"};

// A line there tells nobody what the program does. What torch's distributions
// check of their arguments, it does not ask for.
bool TellsNothing(std::string_view file) {
  const std::string_view package = InPackages(file);
  const bool torchs = package.starts_with("torch/") &&
                      !package.starts_with("torch/distributions/");
  return file.starts_with('<') || torchs ||
         std::ranges::any_of(kOwn,
                             [file](std::string_view own) {
                               return file.find(own) != file.npos;
                             }) ||
         (package.empty() && file.find("/lib/python3") != file.npos);
}

std::string PlaceFrom(Owned frame) {
  std::optional<Line> inner;
  for (; frame.get() != nullptr;
       frame = Owned(Python::Get().back(frame.get()))) {
    std::optional<Line> line = LineOf(frame.get());
    if (!line || TellsNothing(line->file)) continue;
    if (InPackages(line->file).empty()) {
      return !inner ? line->Text()
                    : line->Text() + " (" +
                          inner->Text(InPackages(inner->file)) + ")";
    }
    if (!inner) inner = std::move(line);
  }
  return inner ? inner->Text() : "";
}

// Those who have asked since the main thread ran Python last. Leaked, because
// threads may ask while the process ends.
struct Asking {
  struct One {
    engine::PlaceAsker* asker;
    uint64_t question;
    bool on_main_thread;
  };

  base::Mutex mutex;
  std::vector<One> all REPRISE_GUARDED_BY(mutex);
  // Whose threads ask: in a forked child nobody may have released the mutex.
  const pid_t process = getpid();

  static Asking& Get() {
    static Asking& asking = *new Asking;
    return asking;
  }
};

// On Python's main thread, with its lock, between two steps of its code.
int TellAll(void*) {
  Asking& asking = Asking::Get();
  if (asking.process != getpid()) return 0;
  std::vector<Asking::One> all;
  {
    const base::MutexLock lock(asking.mutex);
    all.swap(asking.all);
  }
  const Python& python = Python::Get();
  std::string place;
  bool in_backward = false;
  if (python.runs()) {
    Owned frame = Owned::Of(python.frame());
    if (frame.get() != nullptr) {
      const std::optional<Line> line = LineOf(frame.get());
      in_backward = line && InPackages(line->file) == "torch/autograd/graph.py";
      place = PlaceFrom(std::move(frame));
    }
  }
  for (const Asking::One& one : all) {
    one.asker->Tell(one.question,
                    one.on_main_thread || in_backward ? place : "");
  }
  return 0;
}

}  // namespace

void AskProgramPlace(engine::PlaceAsker* asker, uint64_t question) {
  const Python& python = Python::Get();
  if (!python.runs()) return;
  Asking& asking = Asking::Get();
  if (asking.process != getpid()) return;
  const base::MutexLock lock(asking.mutex);
  const bool first = asking.all.empty();
  asking.all.push_back({asker, question, gettid() == asking.process});
  if (first && python.later(&TellAll, nullptr) != 0) asking.all.clear();
}

}  // namespace reprise::bindings
